"""A process stands still (SIGSTOP) and goes on later, believing that no time has passed."""

from __future__ import annotations

import signal
import time

import pytest

from tenure import Leases, StoreUnavailable
from tests.faults.support import TTL, Cluster, Program, task, until

pytestmark = pytest.mark.faults

TICK = task("tick", 0.25)
SLACK = 10.0
"""On top of a promised time: these tests run on busy machines."""


def test_frozen_leader_is_succeeded_and_cannot_write_when_it_thaws(cluster: Cluster) -> None:
    long = task("long", 0.5, until="enough", again=0.05)
    frozen = cluster.node("frozen", TICK, long, ttl=TTL)
    first = cluster.leader("frozen")
    begun = cluster.journal.wait("begin", "frozen", schedule="long")
    cluster.tell("other", "enough")
    other = cluster.node("other", TICK, long, ttl=TTL)
    cluster.journal.fact("node.started", "other")

    with cluster.store.write_lock():  # so that it is not frozen inside a write: see below
        stopped = frozen.freeze()

    successor = cluster.leader("other", after=stopped)
    assert successor["term"] > first["term"]
    assert successor.at - stopped < TTL + 1 + SLACK
    # The run that it had begun is given to the other one, and done there.
    assert cluster.journal.wait("end", "other", run=begun["run"])["attempt"] == 2

    thawed = frozen.thaw()
    cluster.tell("frozen", "enough")

    left = cluster.journal.fact("leader.left_office", "frozen", after=thawed)
    assert left["term"] == first["term"]
    refused = cluster.journal.fact("run.refused", "frozen", after=thawed, run=begun["run"])
    assert refused["attempt"] == 1
    # It goes on as a follower, and can lead again when its turn comes.
    assert cluster.store.lease()["term"] == successor["term"]
    ended = other.signal(signal.SIGTERM)
    again = cluster.leader("frozen", after=ended)
    assert again["term"] > successor["term"]
    cluster.journal.wait("end", "frozen", after=again.at, schedule="tick")
    assert cluster.store.runs("long")[0]["state"] == "succeeded"
    assert other.wait() == 0
    cluster.stop_all()
    assert cluster.complaints() == []


def test_frozen_follower_loses_its_runs_but_not_the_leader_its_office(cluster: Cluster) -> None:
    cluster.node("leader", TICK, ttl=TTL)
    leading = cluster.leader("leader")
    long = task("long", 0.5, until="enough", again=0.05)
    frozen = cluster.node("frozen", TICK, long, ttl=TTL)
    begun = cluster.journal.wait("begin", "frozen", schedule="long")
    cluster.tell("heir", "enough")
    cluster.node("heir", TICK, long, ttl=TTL)
    cluster.journal.fact("node.started", "heir")

    with cluster.store.write_lock():
        frozen.freeze()

    cluster.journal.wait("end", "heir", run=begun["run"])
    thawed = frozen.thaw()
    cluster.tell("frozen", "enough")
    cluster.journal.fact("run.refused", "frozen", after=thawed, run=begun["run"])
    assert cluster.store.lease()["term"] == leading["term"]
    cluster.stop_all()
    assert cluster.complaints() == []


def test_short_freeze_changes_nothing(cluster: Cluster) -> None:
    leader = cluster.node("leader", TICK, ttl=4 * TTL)
    leading = cluster.leader("leader")
    cluster.node("other", TICK, ttl=4 * TTL)
    cluster.journal.fact("node.started", "other")
    with cluster.store.write_lock():
        stopped = leader.freeze()
    # The other one executes nothing meanwhile: only the leader fires.
    until(lambda: time.monotonic() > stopped + TTL / 2, "a freeze that is shorter than the ttl")
    thawed = leader.thaw()
    cluster.journal.wait("end", after=thawed, schedule="tick")
    assert cluster.store.lease()["term"] == leading["term"]
    cluster.stop_all()
    assert cluster.complaints() == []


@pytest.mark.parametrize("then", ["thawed", "killed"])
def test_process_frozen_inside_a_write_blocks_all_writers_until_it_goes_on(
    cluster: Cluster, then: str
) -> None:
    """The non-promise of SQLite: it cannot be prevented, so it is said, and loses nothing."""
    frozen = cluster.node("frozen", TICK, task("busy", 0.02), ttl=TTL)
    first = cluster.leader("frozen")
    cluster.node("other", TICK, ttl=TTL)
    cluster.journal.fact("node.started", "other")
    _freeze_inside_a_write(cluster, frozen)

    told = cluster.journal.unavailable("locked by another writer", "other")
    assert "tenure doctor" in told["error"]
    with Leases(cluster.url) as leases, pytest.raises(StoreUnavailable, match="tenure doctor"):
        leases.acquire("anything", ttl=TTL)
    assert not cluster.journal.facts("leader.took_office", "other")

    if then == "killed":
        ended = frozen.kill()
        successor = cluster.leader("other", after=ended)
        assert successor["term"] > first["term"]
        cluster.journal.wait("end", "other", after=successor.at)
    else:
        ended = frozen.thaw()
        cluster.journal.wait("end", "frozen", after=ended)
    cluster.journal.fact("store.recovered", "other", after=ended)
    cluster.stop_all()
    assert cluster.store.sound()
    assert cluster.complaints() == []


def _freeze_inside_a_write(cluster: Cluster, program: Program) -> None:
    """A file that stays locked while it stands still is locked by it: others let go in no time."""

    def frozen_in_it() -> bool:
        program.freeze()
        for _ in range(20):
            if not cluster.store.locked:
                program.thaw()
                return False
            time.sleep(0.02)
        return True

    until(frozen_in_it, "a freeze inside a write")


def test_store_that_nobody_could_write_for_longer_than_the_ttl_makes_nobody_dead(
    cluster: Cluster,
) -> None:
    """All leases have ended by then; the living renew theirs, and go on with what they had."""
    long = task("long", 0.5, work=2.5 * TTL)
    cluster.node("leader", TICK, ttl=TTL)
    cluster.leader("leader")
    cluster.node("worker", TICK, long, ttl=TTL)
    begun = cluster.journal.wait("begin", "worker", schedule="long")
    cluster.node("idle", TICK, long, ttl=TTL)
    cluster.journal.fact("node.started", "idle")

    with cluster.store.write_lock():
        locked = time.monotonic()
        for who in ("leader", "worker"):
            cluster.journal.fact("lease.suspended", who, after=locked)
        until(lambda: time.monotonic() > locked + 1.5 * TTL, "leases to end on the store's clock")

    ended = cluster.journal.wait("end", "worker", run=begun["run"])
    assert (ended["attempt"], ended["cancelled"]) == (1, False)
    cluster.stop_all()
    assert not cluster.journal.facts("runs.recovered")
    assert cluster.store.runs("long")[0]["state"] == "succeeded"
    assert cluster.complaints() == []
