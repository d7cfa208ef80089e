"""A run is cancelled while a process executes it: one that listens, one that stands still."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure import Scheduler
from tenure.model import RunRecord
from tests.faults.postgres import running_cluster, running_server
from tests.faults.support import LONG_TTL, TTL, Cluster, task
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults

LONG = task("long", 0.5, work=1_000, coroutine=True, retries=3)
TOLD_WITHIN = 9.0
"""Much longer than a wake-up takes, and shorter than any poll: that comes after 20 s."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    if request.param == "postgres":
        with running_cluster(request.getfixturevalue("server"), tmp_path) as made:
            yield made
        return
    files = Cluster(tmp_path)
    try:
        yield files
    finally:
        files.end()
        print(files.logs())  # noqa: T201 - pytest shows it with a failure


def cancel(cluster: Cluster, run_id: int) -> RunRecord:
    """From this process, which is no node."""
    scheduler = Scheduler(cluster.url)
    try:
        return scheduler.cancel(run_id)
    finally:
        scheduler.stop()


def look(cluster: Cluster, run_id: int) -> RunRecord:
    scheduler = Scheduler(cluster.url)
    try:
        [run] = [run for run in scheduler.runs("long", limit=1_000) if run.id == run_id]
        return run
    finally:
        scheduler.stop()


def test_coroutine_on_another_node_is_cancelled_at_once(cluster: Cluster) -> None:
    cluster.node("one", LONG, ttl=LONG_TTL)
    run = cluster.journal.wait("begin", "one", schedule="long")["run"]
    begun = time.monotonic()

    assert cancel(cluster, run).cancel_requested_at is not None

    cluster.journal.fact("run.cancelled", "one", run=run, within=TOLD_WITHIN)
    ended = look(cluster, run)
    assert (ended.state, ended.error, ended.attempt) == ("cancelled", "cancelled while it ran", 1)
    # Its lock is free: the next occurrence begins.
    after = cluster.journal.wait("begin", "one", after=begun, schedule="long")
    assert after["run"] != run
    assert cluster.journal.entries("end", run=run) == []


def test_frozen_node_cancels_the_run_when_it_thaws(cluster: Cluster) -> None:
    """It thaws before its ttl is over: the run is still its own."""
    one = cluster.node("one", LONG, ttl=LONG_TTL)
    run = cluster.journal.wait("begin", "one", schedule="long")["run"]
    cluster.freeze(one)
    assert cancel(cluster, run).state == "claimed"
    thawed = one.thaw()
    cluster.journal.fact("run.cancelled", "one", after=thawed, run=run, within=2 * TOLD_WITHIN)
    assert look(cluster, run).state == "cancelled"
    assert len(cluster.journal.entries("begin", run=run)) == 1


def test_cancelled_run_of_a_frozen_node_is_not_run_again(cluster: Cluster) -> None:
    """Its ttl passes, and it counts as dead: another node must not take up what was cancelled."""
    one = cluster.node("one", LONG, ttl=TTL)
    run = cluster.journal.wait("begin", "one", schedule="long")["run"]
    cluster.node("two", LONG, ttl=TTL)
    cluster.journal.fact("node.started", "two")
    cluster.freeze(one)
    assert cancel(cluster, run).state == "claimed"

    recovered = cluster.journal.fact("runs.recovered", "two")
    assert (recovered["rerun"], recovered["lost"], recovered["cancelled"]) == (0, 0, 1)
    ended = look(cluster, run)
    assert (ended.state, ended.crashes) == ("cancelled", 1)

    thawed = one.thaw()
    cluster.journal.fact("run.refused", "one", after=thawed, run=run)
    assert look(cluster, run) == ended
    assert len(cluster.journal.entries("begin", run=run)) == 1
