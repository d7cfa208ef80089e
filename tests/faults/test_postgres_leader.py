"""PostgreSQL: the leader is killed, or stands still wherever it may."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.postgres import SLACK, PostgresCluster, running_cluster, running_server
from tests.faults.programs.postgres_node import PLACES
from tests.faults.support import LONG_TTL, SOON, TTL, task, until
from tests.faults.trust import trusted_until
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults

WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'ClientWrite'"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def cluster(server: PostgresServer, tmp_path: Path) -> Iterator[PostgresCluster]:
    with running_cluster(server, tmp_path) as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("machine", "reason"), [(None, "holder died"), ("first", "its session is gone")]
)
def test_killed_leader_is_succeeded_long_before_its_ttl(
    cluster: PostgresCluster, machine: str | None, reason: str
) -> None:
    """On the same machine its death is proven; from another one its session is missed."""
    same = {"machine": None} if machine is None else {}
    # What it is executing when it is killed stays its own for the ttl: that must not be what the
    # other one's runs wait for.
    given = {"ttl": LONG_TTL, "tasks": [task("tick", 0.25, overlap="allow")], **same}
    first = cluster.a_node("first", **given)
    leading = cluster.leader("first")
    cluster.a_node("other", **given)
    cluster.journal.fact("node.started", "other")

    killed = cluster.kill(first)

    successor = cluster.leader("other", after=killed)
    assert successor["term"] > leading["term"]
    assert successor.at - killed < SOON
    print(f"takeover after kill -9, {reason}: {successor.at - killed:.3f} s")  # noqa: T201
    assert cluster.history()[0]["reason"] == reason
    cluster.journal.wait("end", "other", after=successor.at)
    cluster.finish()


def test_killed_holder_of_an_unfenced_lease_is_waited_for(cluster: PostgresCluster) -> None:
    """From another machine a missing session proves nothing: the ttl rules."""
    first = cluster.holder("guard-1")
    term = cluster.journal.wait("entered", "guard-1")["term"]
    cluster.a_node("node")  # for the accounting
    cluster.holder("guard-2")
    cluster.journal.wait("asked", "guard-2")

    killed = cluster.kill(first)

    entered = cluster.journal.wait("entered", "guard-2", after=killed)
    assert entered["term"] > term
    assert entered["boot"] >= trusted_until(cluster.journal, "guard-1")
    assert entered.at - killed < TTL + 1 + SLACK
    assert cluster.history("guard")[0]["reason"] == "expired"
    cluster.journal.wait("end", schedule="tick")
    cluster.finish()


def test_frozen_leader_is_succeeded_and_follows_when_it_thaws(cluster: PostgresCluster) -> None:
    first, _ = cluster.pair()
    guard = next(p for p in cluster.programs if p.who == "guard-1")

    frozen = first.freeze()
    guard.freeze()

    successor = cluster.leader("other", after=frozen)
    assert successor.at - frozen < TTL + 1 + SLACK
    print(f"takeover after SIGSTOP: {successor.at - frozen:.3f} s")  # noqa: T201
    cluster.journal.wait("entered", "guard-2", after=frozen)
    thawed = first.thaw()
    guard.thaw()
    cluster.journal.fact("leader.left_office", "first", after=thawed)
    cluster.journal.wait("lost", "guard-1", after=thawed)
    cluster.journal.wait("end", "other", after=thawed)
    assert cluster.lease()["term"] == successor["term"]
    cluster.finish()


def test_leader_frozen_inside_its_transaction_neither_blocks_nor_commits(
    cluster: PostgresCluster,
) -> None:
    """At each place in turn; whoever leads is the next to be frozen."""
    nodes = {who: cluster.a_node(who, stops=True) for who in ("one", "two")}
    leading = cluster.leader()
    for who in nodes:
        cluster.journal.fact("node.started", who)
    for where in PLACES:
        cluster.journal.wait("end", after=leading.at, schedule="tick")
        (heir,) = nodes.keys() - {leading.who}
        cluster.tell(leading.who, f"stop-{where}")
        stopped = cluster.journal.wait("stopping", leading.who, after=leading.at).at
        if where == "rows":
            # Until its successor ends it, which a busy machine may have let happen by now.
            until(
                lambda who=heir, after=stopped: (  # type: ignore[misc]
                    cluster.query(WAITING)
                    or cluster.journal.facts("leader.took_office", who, after)
                ),
                "the server to wait for its client",
            )

        successor = cluster.leader(heir, after=stopped)
        took = successor.at - stopped
        print(f"takeover from a leader frozen in its transaction, {where}: {took:.3f} s")  # noqa: T201
        assert took < TTL + 1 + SLACK
        cluster.journal.wait("end", heir, after=successor.at)

        thawed = nodes[leading.who].thaw()
        cluster.journal.wait("failed", leading.who, after=thawed)
        cluster.journal.fact("leader.left_office", leading.who, after=thawed)
        leading = successor
    assert not cluster.journal.entries("committed")
    cluster.finish()
