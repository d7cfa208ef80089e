"""The leader is killed: somebody else goes on, and what it was doing is not forgotten."""

from __future__ import annotations

import pytest

from tests.faults.support import LONG_TTL, SOON, Cluster, task, until

pytestmark = pytest.mark.faults

TICK = task("tick", 0.25)
RERUN = task("long", 0.5, work=60, again=0.05)
ABANDON = task("once", 0.5, work=60, on_crash="abandon")


def test_killed_leader_is_succeeded_and_its_runs_are_rerun_or_lost(cluster: Cluster) -> None:
    first = cluster.node("first", TICK, RERUN, ABANDON, ttl=LONG_TTL)
    cluster.leader("first")
    long = cluster.journal.wait("begin", "first", schedule="long")
    once = cluster.journal.wait("begin", "first", schedule="once")
    others = ("second", "third")
    for who in others:
        cluster.node(who, TICK, RERUN, ABANDON, ttl=LONG_TTL)
    for who in others:
        cluster.journal.fact("node.started", who)
    term = cluster.store.lease()["term"]

    killed = first.kill()

    successor = cluster.leader(others, after=killed)
    assert successor["term"] > term
    assert successor.at - killed < SOON  # by proof of death: the ttl is far longer
    rerun = cluster.journal.wait("end", others, run=long["run"])
    assert rerun["attempt"] == 2
    lost = until(lambda: _run(cluster, "once", once["run"], "lost"), "the abandoned run")
    assert "died" in str(lost["error"])
    cluster.journal.wait("begin", others, schedule="tick", after=successor.at)
    ends = {row["term"]: row["reason"] for row in cluster.store.history()}
    assert ends[term] == "holder died"
    assert not cluster.journal.entries("begin", others, run=once["run"])
    assert cluster.complaints() == []


def test_killed_follower_loses_its_claims_while_the_leader_leads(cluster: Cluster) -> None:
    cluster.node("leader", TICK, ttl=LONG_TTL)
    leading = cluster.leader("leader")
    # Only this one knows the long task, so it has it.
    follower = cluster.node("follower", TICK, RERUN, ttl=LONG_TTL)
    begun = cluster.journal.wait("begin", "follower", schedule="long")

    follower.kill()

    until(lambda: _run(cluster, "long", begun["run"], "waiting"), "its run to wait again")
    cluster.node("another", TICK, RERUN, ttl=LONG_TTL)
    cluster.journal.wait("end", "another", run=begun["run"])
    assert cluster.store.lease()["term"] == leading["term"]
    assert cluster.complaints() == []


def test_three_leaders_killed_in_a_row_lose_nothing(cluster: Cluster) -> None:
    names = ["a", "b", "c", "d"]
    nodes = {who: cluster.node(who, TICK, ttl=LONG_TTL) for who in names}
    leader = cluster.leader()
    for who in names:
        cluster.journal.fact("node.started", who)
    for _ in range(3):
        killed = nodes[leader.who].kill()
        successor = cluster.leader(after=killed)
        assert successor["term"] > leader["term"]
        cluster.journal.wait("end", schedule="tick", after=successor.at)
        leader = successor
    cluster.stop_all()
    assert cluster.complaints() == []


def _run(cluster: Cluster, schedule: str, run_id: int, state: str) -> dict[str, object] | None:
    for row in cluster.store.runs(schedule):
        if (row["id"], row["state"]) == (run_id, state):
            return dict(row)
    return None
