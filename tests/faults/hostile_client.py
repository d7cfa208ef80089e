"""A program that asks for runs of hostile tasks, and for what became of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tenure import RunRecord, Scheduler, TaskFailed
from tests.faults.programs.hostile_tasks import isolated, tasks
from tests.faults.support import PATIENCE, Cluster


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Scheduler]:
    """Asks for runs, and for what became of them."""
    scheduler = Scheduler(cluster.url)
    scheduler.include(tasks)
    scheduler.include(isolated)
    yield scheduler
    scheduler.stop()


def error_of(client: Scheduler, run: RunRecord) -> str:
    with pytest.raises(TaskFailed):
        client.result(run, timeout=PATIENCE)
    return client.get_run(run).error or ""
