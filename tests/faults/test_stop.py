"""Polite ends: SIGTERM hands over, running tasks get their grace, a second signal means it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tenure import Leases
from tests.faults.support import LONG_TTL, Cluster, task, until
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults

TICK = task("tick", 1.0)
PROMISED, SLACK = 0.1, 10.0


def test_stopped_leader_hands_over_at_once_and_loses_no_tick(cluster: Cluster) -> None:
    # One that is late is fired all the same, on a machine that is busy with other things.
    tick = task("tick", 1.0, catch_up="all", overlap="allow")
    first = cluster.node("first", tick, ttl=LONG_TTL)
    cluster.leader("first")
    cluster.node("second", tick, ttl=LONG_TTL)
    cluster.journal.fact("node.started", "second")
    cluster.journal.wait("end", schedule="tick")

    sent = first.signal(signal.SIGTERM)

    successor = cluster.leader("second", after=sent)
    assert successor.at - sent < PROMISED + SLACK
    assert first.wait() == 0
    assert cluster.store.history()[0]["reason"] == "released"
    cluster.journal.wait("end", "second", schedule="tick", after=successor.at)
    cluster.stop_all()
    assert {row["state"] for row in cluster.store.occurrences("tick")} == {"fired"}
    assert cluster.complaints() == []


def test_running_task_is_finished_within_its_grace_while_the_successor_leads(
    cluster: Cluster,
) -> None:
    long = task("long", 0.5, until="enough")
    first = cluster.node("first", TICK, long, ttl=LONG_TTL)
    cluster.leader("first")
    cluster.node("second", TICK, ttl=LONG_TTL)
    cluster.journal.fact("node.started", "second")
    begun = cluster.journal.wait("begin", "first", schedule="long")

    sent = first.signal(signal.SIGTERM)

    cluster.leader("second", after=sent)
    assert first.running
    cluster.tell("first", "enough")
    ended = cluster.journal.wait("end", "first", run=begun["run"])
    assert (ended["attempt"], ended["cancelled"]) == (1, False)
    assert first.wait() == 0
    assert _state(cluster, "long", begun["run"]) == "succeeded"
    assert cluster.complaints() == []


def test_coroutine_that_outlasts_its_grace_is_cancelled_and_waits_for_another_node(
    cluster: Cluster,
) -> None:
    long = task("long", 0.5, work=60, again=0.05, coroutine=True)
    first = cluster.node("first", TICK, long, ttl=LONG_TTL, settings={"grace": 0.3})
    cluster.leader("first")
    begun = cluster.journal.wait("begin", "first", schedule="long")
    cluster.node("second", TICK, long, ttl=LONG_TTL)
    cluster.journal.fact("node.started", "second")

    first.signal(signal.SIGTERM)

    assert first.wait() == 0
    rerun = cluster.journal.wait("end", "second", run=begun["run"])
    assert rerun["attempt"] == 2
    until(lambda: _state(cluster, "long", begun["run"]) == "succeeded", "the second attempt")
    assert cluster.complaints() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_second_signal_ends_at_once(cluster: Cluster, number: signal.Signals) -> None:
    stubborn = task("stubborn", 0.5, work=60, again=0.05)
    first = cluster.node("first", stubborn, ttl=LONG_TTL)
    begun = cluster.journal.wait("begin", "first")
    sent = first.signal(number)
    cluster.journal.fact("leader.left_office", "first", after=sent)
    assert first.running  # its task has half a minute

    first.signal(number)

    assert first.wait(within=25) != 0
    # What it was doing is as after a crash: done again elsewhere.
    cluster.node("second", stubborn, ttl=LONG_TTL)
    assert cluster.journal.wait("end", "second", run=begun["run"])["attempt"] == 2
    assert cluster.complaints() == []


def test_async_scheduler_hands_over_politely_too(cluster: Cluster) -> None:
    first = cluster.start("loop", "first", ttl=LONG_TTL, until_signal=True)
    cluster.leader("first")
    cluster.node("second", task("tick", 0.25), ttl=LONG_TTL)
    cluster.journal.fact("node.started", "second")

    sent = first.signal(signal.SIGTERM)

    assert cluster.leader("second", after=sent).at - sent < PROMISED + SLACK
    assert first.wait() == 0
    cluster.journal.wait("ended", "first")
    cluster.stop_all()
    assert cluster.complaints() == []


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_node_that_is_stopped_at_exit_hands_over(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    if store == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.create_database("exit")
    done = subprocess.run(
        [sys.executable, "-c", _AT_EXIT, url],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    with Leases(url) as leases:
        found = leases.inspect("tenure/leader")
        assert found is not None
        assert found.holder is None


_AT_EXIT = """
import atexit, sys
from tenure import Scheduler
scheduler = Scheduler(sys.argv[1])
atexit.register(scheduler.stop)
scheduler.start()
while not scheduler.is_leader:
    pass
"""


def _state(cluster: Cluster, schedule: str, run_id: int) -> str:
    (state,) = [run["state"] for run in cluster.store.runs(schedule) if run["id"] == run_id]
    return str(state)
