"""`tenure run`: starting, stopping, and what is said about a module that is wrong."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.e2e.command import APP, at_hand, node, tenure, until

ASYNC_APP = """
from pathlib import Path
from tenure import AsyncScheduler, every

scheduler = AsyncScheduler()

@scheduler.task(every(seconds=0.5))
async def beat():
    Path("beaten").touch()
"""


def test_run_says_where_the_store_is_and_hands_over_on_sigterm(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    with node(tmp_path) as running:
        said = running.log.read_text()
        assert f"sqlite:///{tmp_path}/jobs.db" in said
        assert f"kill {running.pid}" in said
        assert running.stop() == 0
        assert "handed over" in running.log.read_text()
    (last,) = at_hand(
        tmp_path, "leases", "history", "tenure/leader", "--json", "--url", "sqlite:///jobs.db"
    ).json
    assert (last["pid"], last["end"]) == (running.pid, "released")


def test_run_takes_an_async_scheduler_and_its_url_from_the_option(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "app.py").write_text(ASYNC_APP)
    more = ("--url", "sqlite:///other.db", "--log-level", "debug")
    with node(tmp_path, "jobs.app:scheduler", *more) as running:
        until((tmp_path / "beaten").exists, "the coroutine to run")
        assert (tmp_path / "other.db").exists()
        until(lambda: running.said("tick.fired"), "a line that only debug shows")
        assert running.stop(signal.SIGINT) == 0


def test_module_that_fails_to_import_is_named_with_cause_and_place(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("from tenure import every\n\nevery(seconds=0)\n")
    answer = tenure(tmp_path, "run", "app:scheduler")
    assert answer.code == 1, answer
    assert f"importing 'app' failed at {tmp_path}/app.py:3: " in answer.err
    assert "greater than 0" in answer.err
    assert "Traceback" not in answer.err
    assert [p.name for p in tmp_path.iterdir()] == ["app.py"], "nothing was created"


def test_whole_traceback_of_a_failed_import_on_request(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("print(y)\n")
    answer = tenure(tmp_path, "run", "app:scheduler", "--log-level", "debug")
    assert answer.code == 1
    assert "Traceback" in answer.err


@pytest.mark.parametrize(
    ("target", "code", "expected"),
    [
        ("app:third", 1, "Schedulers there: app:scheduler."),
        ("app", 2, "Perhaps app:scheduler?"),
    ],
)
def test_target_that_is_no_scheduler(tmp_path: Path, target: str, code: int, expected: str) -> None:
    (tmp_path / "app.py").write_text(APP)
    answer = tenure(tmp_path, "run", target)
    assert answer.code == code, answer
    assert expected in answer.err


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("@s.task(every(hours=1), kwargs={'x': {1, 2}})\ndef a(x): ...", "kwargs['x'] is of type"),
        ("@s.task(every(hours=1), kwargs={'x': 'y' * 300_000})\ndef a(x): ...", "the limit is"),
    ],
    ids=["not JSON", "too long"],
)
def test_arguments_that_cannot_be_stored_stop_the_start(
    tmp_path: Path, body: str, expected: str
) -> None:
    (tmp_path / "app.py").write_text(
        f"from tenure import Scheduler, every\ns = Scheduler('sqlite:///jobs.db')\n{body}\n"
    )
    answer = tenure(tmp_path, "run", "app:s")
    assert answer.code == 1, answer
    assert expected in answer.err
    assert "Traceback" not in answer.err


def test_url_on_the_command_line_does_not_silently_lose_against_the_code(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    answer = tenure(tmp_path, "run", "app:scheduler", "--url", "sqlite:///other.db")
    assert answer.code == 1
    assert "names sqlite:///jobs.db," in answer.err


def test_a_scheduler_that_is_switched_off_says_so(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    answer = tenure(tmp_path, "run", "app:scheduler", TENURE_ENABLED="0")
    assert answer.code == 0
    assert "TENURE_ENABLED" in answer.err
    assert not (tmp_path / "jobs.db").exists()
