"""Twenty processes start at the same instant on a file that does not exist yet."""

from __future__ import annotations

import pytest

from tests.faults.support import Cluster, task, until

pytestmark = pytest.mark.faults

COUNT = 20


def test_twenty_processes_at_once_make_one_schema_one_leader_and_each_schedule_once(
    cluster: Cluster,
) -> None:
    tasks = [task(f"task-{n}", 0.5) for n in range(5)]
    names = [f"node-{n}" for n in range(COUNT)]
    gate = cluster.folder / "gate"
    for who in names:
        # A ttl that a start of twenty interpreters on few cores does not exhaust.
        cluster.node(who, *tasks, ttl=15.0, gate=str(gate), settings={"concurrency": 2})
    for who in names:
        cluster.journal.wait("imported", who, within=50)
    assert not cluster.database.exists()

    gate.touch()

    for who in names:
        cluster.journal.fact("node.started", who)
    leader = cluster.leader()
    cluster.journal.wait("end", schedule="task-0", after=leader.at)
    assert len(cluster.journal.facts("leader.took_office")) == 1
    stored = cluster.store.rows("SELECT name, version FROM tenure_schedule ORDER BY name")
    assert [tuple(row) for row in stored] == [(f"task-{n}", 1) for n in range(5)]
    assert len(cluster.store.rows("SELECT * FROM tenure_edition")) == 1
    until(lambda: len(_present(cluster)) == COUNT, "twenty nodes to be present")
    cluster.stop_all()
    for trouble in ("service.failed", "store.unavailable", "lease.lost", "run.refused"):
        assert not cluster.journal.facts(trouble)
    assert cluster.store.sound()
    assert cluster.complaints() == []


def _present(cluster: Cluster) -> list[str]:
    rows = cluster.store.rows(
        "SELECT holder FROM tenure_lease WHERE name LIKE 'tenure/node/%' AND holder IS NOT NULL"
    )
    return [row["holder"] for row in rows]
