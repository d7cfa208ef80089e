"""A task that is told when another has failed, through the scheduler that users hold."""

from __future__ import annotations

from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from tenure import Scheduler, UnknownTask


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_task_is_told_what_failed(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path / 'tenure.db'}"
    if store == "postgres":
        url = request.getfixturevalue("postgres").create_database()
    scheduler = Scheduler(url)
    told: Queue[dict[str, Any]] = Queue()

    @scheduler.task(on_failure="alert")
    def backup() -> None:
        raise ValueError("the disk is full")

    @scheduler.task
    def alert(failure: dict[str, Any]) -> None:
        told.put(failure)

    with scheduler:
        run = scheduler.enqueue(backup)
        failure = told.get(timeout=30)
    assert (failure["run"], failure["task"], failure["schedule"]) == (run.id, "backup", None)
    assert (failure["state"], failure["attempts"]) == ("failed", 1)
    assert failure["error"].endswith("ValueError: the disk is full")


def test_start_is_refused_without_the_task_that_is_to_be_told() -> None:
    scheduler = Scheduler("memory://")

    @scheduler.task(on_failure="alert")
    def backup() -> None: ...

    with pytest.raises(UnknownTask, match="task 'backup': on_failure: unknown task 'alert'"):
        scheduler.start()
    scheduler.stop()
