"""A rolling upgrade: newer code stored a trigger that the leader does not know."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from tenure.process.clock import to_micros
from tests.faults.support import LONG_TTL, Cluster, task, until

pytestmark = pytest.mark.faults

TICK = task("tick", 0.5)


def test_leader_makes_way_for_a_node_that_knows_the_trigger(cluster: Cluster) -> None:
    cluster.node("old", TICK, ttl=LONG_TTL)
    old = cluster.leader("old")
    cluster.node("new", TICK, task("orbit", 3600), ttl=LONG_TTL, triggers=["moon"])
    cluster.journal.fact("node.started", "new")
    until(lambda: cluster.store.occurrences("tick"), "the first occurrence")
    _store(cluster)

    put_off = cluster.journal.fact("schedule.put_off", "old")
    new = cluster.leader("new", after=put_off.at)
    assert new["term"] > old["term"]
    left = cluster.journal.fact("leader.left_office", "old")
    assert left["reason"] == "made way for newer code"

    _nudge(cluster)
    cluster.journal.wait("begin", "new", schedule="orbit")
    cluster.journal.wait("begin", schedule="tick", after=new.at)
    assert cluster.complaints() == []


def test_without_such_a_node_it_waits_and_the_others_fire(cluster: Cluster) -> None:
    cluster.node("old", TICK, task("orbit", 3600), ttl=LONG_TTL)
    leading = cluster.leader("old")
    until(lambda: cluster.store.occurrences("tick"), "the first occurrence")
    _store(cluster)
    put_off = cluster.journal.fact("schedule.put_off", "old")
    for _ in range(2):
        begun = cluster.journal.wait("begin", "old", schedule="tick", after=put_off.at)
        put_off = begun
    (row,) = cluster.store.rows("SELECT * FROM tenure_schedule WHERE name = 'orbit'")
    assert row["active"] == 1
    assert "moon" in row["reason"]
    assert cluster.store.lease()["term"] == leading["term"]
    assert cluster.complaints() == []


def _store(cluster: Cluster) -> None:
    """What a process with newer code would do."""
    now = datetime.now(UTC).replace(microsecond=0)
    anchor = (now - timedelta(seconds=1)).isoformat()
    trigger = json.dumps({"type": "moon", "v": 1, "seconds": 1.0, "anchor": anchor})
    with cluster.store.connect() as connection:
        connection.execute(
            'UPDATE tenure_schedule SET "trigger" = :trigger, version = version + 1,'
            " next_nominal = :now, next_due = :now WHERE name = 'orbit'",
            {"trigger": trigger, "now": to_micros(now)},
        )


def _nudge(cluster: Cluster) -> None:
    with cluster.store.connect() as connection:
        connection.execute(
            "UPDATE tenure_schedule SET next_due = next_nominal WHERE name = 'orbit'"
        )
