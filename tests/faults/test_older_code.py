"""A rolling upgrade: nodes of an earlier commit beside newer ones, on a database that has one more
migration than the older ones know."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.postgres import PostgresCluster, running_cluster
from tests.faults.support import LONG_TTL, Cluster, Program, task
from tests.support import past
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults

BUSY = task("tick", 0.5, work=0.8, overlap="allow")
"""More than one node can execute."""
TICK = task("tick", 0.5)
ONE = {"concurrency": 1}


class Rollout:
    """A cluster on either store, with old nodes and new ones."""

    def __init__(self, cluster: Cluster, root: Path) -> None:
        self.cluster = cluster
        self.journal = cluster.journal
        self._root = root

    def old(self, who: str, *tasks: dict[str, object], **options: Any) -> Program:
        given = {"tasks": tasks, "ttl": LONG_TTL, **options}
        return self.cluster.start("node", who, root=self._root, **given)

    def new(self, who: str, *tasks: dict[str, object], **options: Any) -> Program:
        return self.cluster.start("newer_node", who, tasks=tasks, ttl=LONG_TTL, **options)

    def rows(self, text: str) -> list[Any]:
        """The rows; tables are written {table}."""
        if isinstance(self.cluster, PostgresCluster):
            return self.cluster.query(text.replace("{", "tenure.").replace("}", ""))
        with self.cluster.store.connect() as connection:
            text = text.replace("{", "tenure_").replace("}", "")
            return connection.execute(text).fetchall()

    @property
    def migrated(self) -> bool:
        names = [row["name"] for row in self.rows("SELECT name FROM {migration}")]
        return "colours" in names


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return past.code_of(past.FIRST, tmp_path_factory.mktemp("past")).parent


@pytest.fixture(params=["sqlite", "postgres"])
def rollout(request: pytest.FixtureRequest, root: Path, tmp_path: Path) -> Iterator[Rollout]:
    if request.param == "sqlite":
        yield Rollout(request.getfixturevalue("cluster"), root)
        return
    if sys.platform != "linux":
        pytest.skip("these tests watch processes through /proc")
    server: PostgresServer = request.getfixturevalue("postgres")
    with running_cluster(server, tmp_path) as cluster:
        yield Rollout(cluster, root)


@pytest.mark.slow
def test_old_nodes_and_new_ones_fire_and_execute_side_by_side(rollout: Rollout) -> None:
    journal, cluster = rollout.journal, rollout.cluster
    rollout.old("old", BUSY, settings=ONE)
    cluster.leader("old")
    journal.wait("end", "old")
    rollout.new("new", BUSY, settings=ONE)
    both = journal.fact("node.started", "new")
    assert rollout.migrated
    for who in ("old", "new"):  # fired by the old one
        journal.wait("end", who, after=both.at)
    rollout.old("old-2", BUSY, settings=ONE)  # one more starts on what the new one made
    journal.fact("node.started", "old-2")
    cluster.stop_all("old")
    second = cluster.leader(("new", "old-2"), after=both.at)
    for who in ("new", "old-2"):  # fired by the one
        journal.wait("end", who, after=second.at)
    rollout.new("new-2", BUSY, settings=ONE)
    joined = journal.fact("node.started", "new-2")
    cluster.stop_all(second.who)
    third = cluster.leader(after=joined.at)  # and by the other, if it is its turn
    journal.wait("end", third.who, after=third.at)
    cluster.stop_all(third.who)
    last = cluster.leader(after=third.at)
    journal.wait("end", last.who, after=last.at)
    assert {"old", second.who, third.who, last.who} == {"old", "new", "old-2", "new-2"}
    cluster.stop_all()
    assert cluster.complaints() == []
    assert journal.facts("service.failed") == []


def test_old_leader_makes_way_for_a_node_that_knows_the_target(rollout: Rollout) -> None:
    journal, cluster = rollout.journal, rollout.cluster
    rollout.old("old", TICK)
    old = cluster.leader("old")
    rollout.new("new", TICK, task("orbit", 1))
    journal.wait("end", "new", schedule="orbit")
    rollout.rows("UPDATE {schedule} SET target = 'signal' WHERE name = 'orbit'")
    put_off = journal.fact("schedule.put_off", "old")
    new = cluster.leader("new", after=put_off.at)
    assert new["term"] > old["term"]
    left = journal.fact("leader.left_office", "old")
    assert left["reason"] == "made way for newer code"
    rollout.rows("UPDATE {schedule} SET next_due = next_nominal WHERE name = 'orbit'")
    for name in ("orbit", "tick"):
        journal.wait("end", schedule=name, after=new.at)
    cluster.stop_all()
    assert cluster.complaints() == []
    assert journal.facts("service.failed") == []
