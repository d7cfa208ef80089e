"""Which runs are meant: `cancel`, `retry`, `result` and `get_run` take a run or its number, `runs`
takes names and states. Anything else is refused before a store is touched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenure import AsyncScheduler, ConfigError, NotFound, Scheduler

WRONG = ["1", b"1", True, None, 1.0, [1], 2**63]


def pack() -> None: ...


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Scheduler]:
    scheduler = Scheduler(f"sqlite:///{tmp_path / 'jobs.db'}")
    scheduler.task(pack)
    yield scheduler
    scheduler.stop()


def test_run_or_its_number(scheduler: Scheduler) -> None:
    run = scheduler.enqueue(pack)
    for which in (run, run.id):
        assert scheduler.cancel(which).state == "cancelled"
        assert scheduler.retry(which).state == "waiting"
        assert scheduler.get_run(which).state == "waiting"
        with pytest.raises(TimeoutError):
            scheduler.result(which, timeout=0)
    with pytest.raises(NotFound, match="there is no run 4711"):
        scheduler.get_run(4711)


async def test_run_or_its_number_for_coroutines(tmp_path: Path) -> None:
    scheduler = AsyncScheduler(f"sqlite:///{tmp_path / 'jobs.db'}")
    scheduler.task(pack)
    run = await scheduler.enqueue(pack)
    assert (await scheduler.cancel(run)).state == "cancelled"
    assert (await scheduler.retry(run)).state == "waiting"
    assert await scheduler.runs(task=pack) == [await scheduler.get_run(run)]
    with pytest.raises(ConfigError, match="nor the number of one"):
        await scheduler.cancel("1")  # type: ignore[arg-type]
    await scheduler.stop()


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
@pytest.mark.parametrize("call", ["cancel", "retry", "result", "get_run"])
def test_anything_else_is_refused_before_the_store_is_opened(
    tmp_path: Path, call: str, wrong: Any
) -> None:
    scheduler = Scheduler(f"sqlite:///{tmp_path / 'jobs.db'}")
    with pytest.raises(ConfigError, match=r"is neither a run, .* nor the number of one"):
        getattr(scheduler, call)(wrong)
    with pytest.raises(ConfigError, match="'no' is neither True nor False"):
        scheduler.retry(1, even_succeeded="no")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="timeout='1' is not a number"):
        scheduler.result(1, timeout="1")  # type: ignore[arg-type]
    scheduler.stop()
    assert list(tmp_path.iterdir()) == []


def test_one_off_runs_are_found_by_their_task(scheduler: Scheduler) -> None:
    scheduler.task(name="send")(lambda: None)
    run = scheduler.enqueue(pack)
    scheduler.enqueue("send")
    assert scheduler.runs(task=pack) == scheduler.runs(task="pack") == [run]
    assert scheduler.runs(task="pack", state="waiting", limit=1) == [run]
    assert scheduler.runs(task="pack", state="failed") == []
    assert scheduler.runs(task="gone") == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"state": "faild"}, "state='faild' is not known; choose from 'waiting', 'claimed', 's"),
        ({"state": 1}, "state=1 is not known"),
        ({"schedule": pack}, r"is not the name of a schedule. For .* runs\(task=…\)"),
        ({"task": len}, "is not a task of this scheduler"),
        ({"limit": -1}, "limit=-1 must be between"),
        ({"limit": "9"}, "limit='9' is not a whole number"),
    ],
)
def test_question_that_has_no_answer(tmp_path: Path, given: dict[str, Any], says: str) -> None:
    scheduler = Scheduler(f"sqlite:///{tmp_path / 'jobs.db'}")
    with pytest.raises(ConfigError, match=says):
        scheduler.runs(**given)
    scheduler.stop()
    assert list(tmp_path.iterdir()) == []
