"""What a task tells while it runs: any text, from anywhere, within a fixed size."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure import ConfigError, Run, RunLogHandler
from tenure.model import Report
from tenure.process.threads import Threads
from tenure.tasks.executor import Executor
from tenure.tasks.registry import Tasks
from tenure.tasks.run import current_run
from tenure.tasks.run_log import LOG_LIMIT, MESSAGE_LENGTH, RunLog, pieces


def a_run() -> Run:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    return Run(1, None, "task", moment, attempt=1, term=0, node="n", kwargs={})


def told(run: Run) -> Report:
    assert run.told is not None
    return run.told.report()


# -- the log --------------------------------------------------------------------------------------


def test_each_call_adds_a_line() -> None:
    run = a_run()
    run.log("one")
    run.log("two\n")
    run.log("three\nfour")
    run.log(5)
    assert told(run) == Report(log="one\ntwo\nthree\nfour\n5\n")


def test_a_run_that_tells_nothing_has_nothing() -> None:
    assert a_run().told is None


def test_text_that_no_database_takes_is_made_readable() -> None:
    run = a_run()
    run.log("half \ud800, zero \0, bell \a")
    assert told(run).log == "half \\ud800, zero \\x00, bell \a\n"
    told(run).log.encode()


def test_a_long_log_keeps_its_first_and_its_last_half_and_says_what_is_missing() -> None:
    run = a_run()
    lines = [f"line {n}: äöü" for n in range(20_000)]
    for line in lines:
        run.log(line)
    report = told(run)
    size = sum(len(line.encode()) + 1 for line in lines)
    note = f"[… {report.log_dropped:,} bytes are missing here …]\n"
    assert note in report.log
    first, last = report.log.split(note)
    assert first.startswith("line 0: äöü\nline 1: äöü\n")
    assert last.endswith("line 19999: äöü\n")
    kept = size - report.log_dropped
    assert LOG_LIMIT - 8 <= kept <= LOG_LIMIT
    assert len(report.log.encode()) <= LOG_LIMIT + len(note.encode()) + 1


def test_one_enormous_line_costs_no_more_than_many() -> None:
    log = RunLog()
    log.add("€" * 4_000_000)
    report = log.report()
    assert report.log_dropped >= 12_000_000 + 1 - LOG_LIMIT
    assert len(report.log) < LOG_LIMIT
    assert report.log.startswith("€€")
    assert report.log.endswith("€€\n")


@given(st.lists(st.text(st.characters(), max_size=30_000).map(lambda t: t * 7), max_size=4))
def test_any_text_is_kept_whole_or_counted(texts: list[str]) -> None:
    log = RunLog()
    size = 0
    for text in texts:
        log.add(text)
        line = text.encode("utf-8", "backslashreplace").replace(b"\0", b"\\x00")
        size += len(line) + (not line.endswith(b"\n"))
    report = log.report()
    if report.log_dropped:
        note = f"[… {report.log_dropped:,} bytes are missing here …]\n"
        first, _, last = report.log.partition(note)
        kept = len(first.encode()) + len(last.encode())
        assert size - report.log_dropped <= kept <= size - report.log_dropped + 1
    else:
        assert len(report.log.encode()) == size <= LOG_LIMIT


@pytest.mark.parametrize("letter", ["x", "é", "\U0001f600"])
@pytest.mark.parametrize("length", [0, 1, LOG_LIMIT, 2 * LOG_LIMIT, 2 * LOG_LIMIT + 1, 500_000])
def test_text_in_pieces_is_whole_and_cut_where_nothing_is_kept(length: int, letter: str) -> None:
    text = "".join(f"{letter}{n}," for n in range(length // 2))[:length]
    cut = list(pieces(text))
    assert "".join(cut) == text
    assert max(map(len, cut)) <= 2 * LOG_LIMIT
    whole, apart = RunLog(), RunLog()
    whole.add(text)
    for piece in cut:
        apart.add(piece)
    for one, other in zip(_kept(whole), _kept(apart), strict=True):
        assert one == other


def _kept(log: RunLog) -> list[str]:
    """Both ends, without what is said about the middle."""
    return [part for part in log.report().log.split("\n") if not part.startswith("[…")]


def test_many_threads_may_log_at_once() -> None:
    run = a_run()

    def work(name: str) -> None:
        for n in range(200):
            run.log(f"{name} {n}")

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = told(run).log.splitlines()
    assert sorted(lines) == sorted(f"{name} {n}" for name in "abcd" for n in range(200))


# -- progress -------------------------------------------------------------------------------------


def test_the_last_word_on_progress_counts() -> None:
    run = a_run()
    run.progress(0.1, "page 3 of 30")
    run.progress(0.4, "page 12 of 30")
    assert told(run) == Report(0.4, "page 12 of 30")


@pytest.mark.parametrize(
    ("fraction", "kept"),
    [
        (0, 0.0),
        (1.0000001, 1.0),
        (-1e-9, 0.0),
        (math.inf, 1.0),
        (-math.inf, 0.0),
        (10**400, 1.0),
        (-(10**400), 0.0),
        (Fraction(1, 2), 0.5),
        (Decimal("0.25"), 0.25),
        (math.nan, None),
        (None, None),
    ],
)
def test_rounding_fails_no_run(fraction: Any, kept: float | None) -> None:
    run = a_run()
    run.progress(fraction, "…")
    assert told(run) == Report(kept, "…")


@pytest.mark.parametrize("fraction", ["0.4", b"1", [], object(), 1j])
def test_what_is_no_number_is_refused_and_changes_nothing(fraction: Any) -> None:
    run = a_run()
    run.progress(0.3, "before")
    with pytest.raises(ConfigError, match="from 0 to 1"):
        run.progress(fraction)
    assert told(run) == Report(0.3, "before")


def test_a_message_is_shortened() -> None:
    run = a_run()
    run.progress(0.5, "x\0" * MESSAGE_LENGTH)
    assert told(run).message == "x\\x00" * (MESSAGE_LENGTH // 2)


# -- taking ---------------------------------------------------------------------------------------


def test_what_is_new_is_taken_once_and_announced_once() -> None:
    news: list[None] = []
    log = RunLog(lambda: news.append(None))
    assert log.take() is None
    log.add("a")
    log.add("b")
    assert len(news) == 1
    assert log.take() == Report(log="a\nb\n")
    assert log.take() is None
    log.progress(0.5)
    assert len(news) == 2
    assert log.take() == Report(0.5, log="a\nb\n")
    log.give_back()
    assert log.take() == Report(0.5, log="a\nb\n")


def test_a_closed_loop_is_no_reason_to_fail() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    run = a_run()

    def news() -> None:
        loop.call_soon_threadsafe(print)

    run.on_news = news
    run.log("after the end")
    assert told(run).log == "after the end\n"


# -- logging --------------------------------------------------------------------------------------


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger, handler = logging.getLogger("a task's own"), RunLogHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger.addHandler(handler)
    yield logger
    logger.removeHandler(handler)


async def test_what_a_task_logs_is_in_the_log_of_its_own_run(logger: logging.Logger) -> None:
    tasks = Tasks()

    @tasks.task
    def plain(run: Run) -> None:
        logger.warning("plain %s", run.id)

    @tasks.task
    async def coroutine(run: Run) -> None:
        logger.warning("coroutine %s", run.id)
        await asyncio.to_thread(logger.warning, "thread %s", run.id)

    def hands_out(run: Run) -> Any:
        return coroutine(run)

    tasks.task(hands_out)
    executor = Executor(Threads("test", 2), asyncio.get_running_loop)
    runs: list[Run] = []
    for name in ("plain", "coroutine", "hands_out"):
        ended: asyncio.Future[BaseException | None] = asyncio.Future()
        run = a_run()
        run.id = len(runs) + 1
        executor(tasks[name], run, None, lambda error, _, ended=ended: ended.set_result(error))  # type: ignore[misc]
        assert await asyncio.wait_for(ended, 30) is None
        runs.append(run)
    logger.warning("outside")
    assert [told(run).log for run in runs] == [
        "WARNING plain 1\n",
        "WARNING coroutine 2\nWARNING thread 2\n",
        "WARNING coroutine 3\nWARNING thread 3\n",
    ]


def test_a_record_that_cannot_be_formatted_fails_no_task(
    capsys: pytest.CaptureFixture[str],
) -> None:
    wrong = logging.LogRecord("x", logging.WARNING, __file__, 1, "%d", ("not a number",), None)
    token = current_run.set(a_run())
    try:
        RunLogHandler().handle(wrong)
    finally:
        current_run.reset(token)
    assert "Logging error" in capsys.readouterr().err
