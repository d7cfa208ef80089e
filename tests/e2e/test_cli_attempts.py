"""What runs tell, and how their attempts ended, is shown by `tenure runs` from any process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenure import AsyncScheduler, Backoff, NotFound, Retry, Run, RunLogHandler, Scheduler
from tests.e2e.command import APP, PATIENCE, Answer, at_hand, node, until
from tests.support.servers import PostgresServer


class World:
    """A node with a task that tells something and goes on until it is let go."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.let_go = threading.Event()
        self.scheduler = scheduler = Scheduler(url)

        @scheduler.task
        def talks(run: Run) -> str:
            run.log("hello")
            run.progress(0.4, "page 12 of 30")
            assert self.let_go.wait(PATIENCE)
            run.log("good \x1b[31mbye\ntwo")
            return "done"

        @scheduler.task(retries=2, backoff=Backoff.constant(0.05))
        def fails(run: Run) -> None:
            run.log(f"attempt {run.attempt}")
            if run.attempt == 2:
                raise Retry("not yet", delay=0.01)
            raise ValueError(f"no such customer: {run.attempt}")

        @scheduler.task
        def silent() -> None: ...

        scheduler.start()

    def close(self) -> None:
        self.let_go.set()
        self.scheduler.stop()

    def command(self, *args: object) -> Answer:
        answer = at_hand(self.folder, "runs", *args, "--url", self.url)
        assert answer.code == 0, answer
        return answer

    def ended(self, run: int) -> None:
        until(lambda: self.scheduler.get_run(run).finished_at, "the end of the run")


@pytest.fixture(params=["sqlite", "postgres"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/jobs.db"
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.create_database("attempts")
    world = World(url, tmp_path)
    yield world
    world.close()


def test_progress_and_log_are_seen_while_it_runs_and_afterwards(world: World) -> None:
    run = world.scheduler.enqueue("talks").id
    until(lambda: [a for a in world.scheduler.attempts(run) if a.progress], "its progress")
    [listed] = world.command("list", "--json").json
    assert (listed["progress"], listed["message"]) == (0.4, "page 12 of 30")
    assert "40 % page 12 of 30" in world.command("list").out
    shown = world.command("show", run)
    assert "[########------------] 40 % page 12 of 30" in shown.out
    assert "running" in shown.out
    [attempt] = world.command("show", run, "--json").json["attempts"]
    assert (attempt["outcome"], attempt["ended_at"], attempt["log"]) == (None, None, "hello\n")
    world.let_go.set()
    world.ended(run)
    [told] = world.scheduler.attempts(run)
    assert (told.outcome, told.log) == ("succeeded", "hello\ngood \x1b[31mbye\ntwo\n")
    assert told.ended_at == world.scheduler.get_run(run).finished_at
    assert world.command("log", run).out == "  hello\n  good \\x1b[31mbye\n  two\n"
    assert world.command("log", run, "--json").json == {
        "run": run,
        "attempt": 1,
        "log": told.log,
        "log_dropped": 0,
    }
    [listed] = world.command("list", "--json").json
    assert (listed["progress"], listed["message"]) == (None, None)


def test_each_attempt_that_did_not_succeed_is_shown(world: World) -> None:
    run = world.scheduler.enqueue("fails").id
    world.ended(run)
    shown = world.command("show", run)
    lines = [line.split() for line in shown.out.splitlines()]
    table = [line[:2] for line in lines if line and line[0].isdecimal()]
    assert table == [["1", "failed"], ["2", "put"], ["3", "failed"], ["4", "failed"]]
    for number in (1, 3, 4):
        assert f"ValueError: no such customer: {number}" in shown.out
    assert "not yet" in shown.out
    attempts = world.scheduler.attempts(run)
    assert [a.log for a in attempts] == [f"attempt {n}\n" for n in (1, 2, 3, 4)]
    assert all(a.ended_at is not None and a.started_at <= a.ended_at for a in attempts)
    assert "Traceback" in (attempts[0].error or "")
    assert world.command("log", run).out == "  attempt 4\n"
    assert world.command("log", run, "--attempt", 2).out == "  attempt 2\n"


def test_a_success_that_tells_nothing_has_no_attempts(world: World) -> None:
    run = world.scheduler.enqueue("silent").id
    world.ended(run)
    assert world.scheduler.attempts(run) == []
    assert world.command("show", run, "--json").json["attempts"] == []
    assert "ATTEMPT" not in world.command("show", run).out
    assert world.command("log", run).err == f"Run {run} has logged nothing.\n"
    assert world.command("log", run, "--json").json["log"] is None
    with pytest.raises(NotFound, match="there is no run 9999"):
        world.scheduler.attempts(9_999)


def test_attempt_that_there_never_was_is_an_error(world: World) -> None:
    run = world.scheduler.enqueue("fails").id
    world.ended(run)
    last = world.scheduler.get_run(run).attempt
    answer = at_hand(world.folder, "runs", "log", run, "--attempt", 7, "--url", world.url)
    assert answer.code == 1, answer
    assert f"run {run} has no attempt 7, only 1 to {last}." in answer.err
    assert f"attempt {last}" in world.command("log", run, "--attempt", last).out


def test_run_that_is_no_number_is_refused_in_plain_words(tmp_path: Path) -> None:
    answer = at_hand(tmp_path, "runs", "show", "abc", "--url", f"sqlite:///{tmp_path}/jobs.db")
    assert answer.code == 2, answer
    assert "'abc' is not a whole number." in answer.err


def test_following_goes_on_until_the_end(world: World) -> None:
    run = world.scheduler.enqueue("talks").id
    until(lambda: world.scheduler.attempts(run), "its first report")
    threading.Timer(0.3, world.let_go.set).start()
    assert world.command("log", run, "--follow").out == "  hello\n  good \\x1b[31mbye\n  two\n"
    for wrong in (("--json",), ("--attempt", 1)):
        answer = at_hand(world.folder, "runs", "log", run, "--follow", *wrong, "--url", world.url)
        assert answer.code == 2
        assert "--follow goes with neither" in answer.err


def test_an_attempt_whose_node_was_killed_is_on_record(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    store = ("--url", "sqlite:///jobs.db")

    def shown() -> dict[str, Any]:
        found: dict[str, Any] = at_hand(tmp_path, "runs", "show", run, *store, "--json").json
        return found

    with node(tmp_path) as first:
        run = at_hand(tmp_path, "schedules", "run-now", "held", *store, "--json").json["id"]
        until(lambda: shown()["state"] == "claimed", "the claim")
        killed = shown()["node"]
        first.process.kill()
        first.process.wait()
    (tmp_path / "let-go").touch()
    with node(tmp_path):
        until(lambda: shown()["state"] == "succeeded", "the second attempt")
    [attempt] = shown()["attempts"]
    assert (attempt["attempt"], attempt["outcome"], attempt["node"]) == (1, "crashed", killed)
    assert "died" in attempt["error"]


def test_what_is_logged_inside_a_task_is_in_the_log_of_its_run(tmp_path: Path) -> None:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/jobs.db")
    logger, handler = logging.getLogger("shop"), RunLogHandler()
    logger.addHandler(handler)

    @scheduler.task
    def plain(n: int) -> None:
        logger.warning("plain %s", n)

    @scheduler.task
    async def coroutine(n: int) -> None:
        logger.warning("coroutine %s", n)

    try:
        with scheduler:
            runs = [scheduler.enqueue(name, kwargs={"n": 7}) for name in ("plain", "coroutine")]
            for run in runs:
                scheduler.result(run, timeout=PATIENCE)
            told = [attempt.log for run in runs for attempt in scheduler.attempts(run)]
    finally:
        logger.removeHandler(handler)
    assert told == ["plain 7\n", "coroutine 7\n"]


async def test_an_async_scheduler_has_them_too(tmp_path: Path) -> None:
    scheduler = AsyncScheduler(f"sqlite:///{tmp_path}/jobs.db")

    @scheduler.task
    async def talks(run: Run) -> None:
        run.progress(1, "done")

    async with scheduler:
        run = await scheduler.enqueue("talks")
        await scheduler.result(run, timeout=PATIENCE)
        [attempt] = await scheduler.attempts(run)
    assert (attempt.progress, attempt.message) == (1.0, "done")


@pytest.mark.parametrize("encoding", ["LATIN1", "EUC_JP"])
def test_what_tasks_say_fits_into_every_database(postgres: PostgresServer, encoding: str) -> None:
    """A name that does not fit is refused; a log, an error or a result cannot be."""
    options = f"ENCODING '{encoding}' TEMPLATE template0 LOCALE 'C'"
    url = postgres.create_database("said", options)
    text = "é € 漢 \U0001f600"
    scheduler = Scheduler(url)

    @scheduler.task
    def returns(run: Run) -> str:
        run.log(text)
        run.progress(0.5, text)
        return text

    @scheduler.task
    def raises(run: Run) -> None:
        run.log(text)
        raise ValueError(text)

    @scheduler.task
    def completes(run: Run) -> None:
        run.log(text)
        with psycopg.connect(url) as connection:
            run.complete(connection)

    with scheduler:
        assert scheduler.result(scheduler.enqueue("returns"), timeout=PATIENCE) == text
        assert scheduler.result(scheduler.enqueue("completes"), timeout=PATIENCE) is None
        run = scheduler.enqueue("raises")
        until(lambda: scheduler.get_run(run).finished_at, "the end of the run")
        [attempt] = scheduler.attempts(run)
        fits = {"LATIN1": "é \\u20ac", "EUC_JP": "漢"}[encoding]
        assert fits in attempt.log
        assert fits in (attempt.error or "")
