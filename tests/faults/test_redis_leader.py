"""Leases in Redis: the leader, or the holder of a lock, is killed, frozen or cut off."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator

import pytest

from tests.faults.redis import GUARD, SLACK, Clusters, RedisCluster, running_server
from tests.faults.support import TTL, until
from tests.faults.trust import trusted_until
from tests.support.proxy import Mode
from tests.support.servers import ValkeyServer

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    with running_server() as server:
        yield server


@pytest.fixture(scope="module")
def clusters(server: ValkeyServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    clusters = Clusters(server, tmp_path_factory)
    yield clusters
    clusters.end()


@pytest.fixture
def cluster(clusters: Clusters) -> Iterator[RedisCluster]:
    with clusters.one() as cluster:
        yield cluster


def test_killed_leader_is_missed_and_killed_holder_of_a_lock_is_waited_for(
    cluster: RedisCluster,
) -> None:
    """A leader is fenced: that its connection is gone is enough. A lock is not: the ttl rules."""
    leading, holding = cluster.in_office(), cluster.holding()

    cluster.kill(cluster.program(holding.who))
    killed = cluster.kill(cluster.program(leading.who))

    successor = cluster.leader(after=killed)
    assert successor["term"] > leading["term"]
    assert cluster.ended()["reason"] == "its session is gone"
    print(f"takeover after kill -9: {successor.at - killed:.3f} s")  # noqa: T201
    assert successor.at - killed < 1 + SLACK
    entered = cluster.journal.wait("entered", after=killed)
    assert entered["term"] > holding["term"]
    assert entered["boot"] >= trusted_until(cluster.journal, holding.who)
    assert entered.at - killed < TTL + 1 + SLACK
    assert cluster.ended(GUARD)["reason"] == "expired"
    cluster.settle()


def test_frozen_past_the_ttl_they_can_neither_extend_nor_release_nor_write(
    cluster: RedisCluster,
) -> None:
    leading, holding = cluster.in_office(), cluster.holding()
    leader, holder = cluster.program(leading.who), cluster.program(holding.who)

    with cluster.store.write_lock():  # not within a write, which would stop everybody's
        frozen = leader.freeze()
    holder.freeze()

    successor = cluster.leader(after=frozen)
    print(f"takeover after SIGSTOP: {successor.at - frozen:.3f} s")  # noqa: T201
    assert successor.at - frozen < TTL + 1 + SLACK
    entered = cluster.journal.wait("entered", after=frozen)
    thawed = leader.thaw()
    holder.thaw()
    cluster.journal.fact("leader.left_office", leader.who, after=thawed)
    cluster.journal.wait("lost", holder.who, after=thawed)
    cluster.journal.wait("end", after=thawed)
    assert cluster.lease()["term"] == str(successor["term"])
    assert cluster.lease(GUARD)["term"] == str(entered["term"])
    cluster.settle()


@pytest.mark.parametrize(("mode", "locks"), [("cut", "half-open"), ("half-open", "cut")])
def test_cut_off_they_are_succeeded_and_come_back_as_followers(
    cluster: RedisCluster, mode: Mode, locks: Mode
) -> None:
    leading, holding = cluster.in_office(), cluster.holding()

    isolated = time.monotonic()
    cluster.line(leading.who).become(mode)
    cluster.line(holding.who).become(locks)

    successor = cluster.leader(after=isolated)
    took = successor.at - isolated
    print(f"takeover from a leader whose line is {mode}: {took:.3f} s")  # noqa: T201
    assert took < TTL + 1 + SLACK
    cluster.journal.fact("lease.suspended", leading.who, after=leading.at)  # before, if it was busy
    entered = cluster.journal.wait("entered", after=isolated)
    # A missing connection does not shorten a lock.
    assert entered["boot"] >= trusted_until(cluster.journal, holding.who)

    healed = time.monotonic()
    cluster.line(leading.who).become("pass")
    cluster.line(holding.who).become("pass")

    cluster.journal.fact("leader.left_office", leading.who, after=isolated)
    cluster.journal.fact("store.recovered", leading.who, after=healed, service="keeper")
    cluster.journal.wait("lost", holding.who, after=healed)
    assert cluster.lease()["term"] == str(successor["term"])
    cluster.settle()


def test_slow_line_changes_nothing(cluster: RedisCluster) -> None:
    leading, holding = cluster.in_office(), cluster.holding()
    for who in (leading.who, holding.who):
        cluster.line(who).become("slow", 0.1)
    _renewals(cluster, 3)
    for who in (leading.who, holding.who):
        cluster.line(who).become("pass")
    assert cluster.lease()["term"] == str(leading["term"])
    assert cluster.lease(GUARD)["term"] == str(holding["term"])
    cluster.settle()


def test_connections_of_healthy_holders_ended_by_an_administrator(cluster: RedisCluster) -> None:
    """A lock is not lost by that. Leadership may move, safely."""
    holding, offices = cluster.holding(), len(cluster.journal.facts("leader.took_office"))
    for _ in range(3):
        ended = time.monotonic()
        for kind in ("normal", "pubsub"):
            cluster.server.command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
        _renewals(cluster, 2)
        cluster.journal.wait("end", after=ended, schedule="tick")
    assert cluster.lease(GUARD)["term"] == str(holding["term"])
    assert cluster.holding() == holding
    moved = len(cluster.journal.facts("leader.took_office")) - offices
    print(f"leadership moved {moved} times in 3 rounds of ended connections")  # noqa: T201
    # And then it rests: everybody is known by the connection that it has now.
    until(_known(cluster), "the leader's connection to be the one on record")
    term = cluster.lease()["term"]
    _renewals(cluster, 3)
    assert cluster.lease()["term"] == term
    cluster.settle()


def test_two_versions_overlap_and_one_executes(cluster: RedisCluster) -> None:
    """Blue holds the lock and leads; green starts, waits, and goes on at once when blue leaves."""
    blue = {cluster.in_office().who, cluster.holding().who}
    green = [cluster.a_node(), cluster.a_guard()]
    cluster.journal.fact("node.started", green[0].who)
    cluster.journal.wait("asked", green[1].who)

    left = time.monotonic()
    for who in blue:
        cluster.tell(who, "leave")
        if who.startswith("node"):
            cluster.program(who).signal(signal.SIGTERM)

    entered = cluster.journal.wait("entered", after=left)
    successor = cluster.leader(after=left)
    for who in blue:
        assert cluster.program(who).wait() == 0
    handover = cluster.journal.wait("lets go", tuple(blue), after=left)
    print(f"handover of a lock: {entered.at - handover.at:.3f} s")  # noqa: T201
    assert entered.at - handover.at < 1 + SLACK
    cluster.journal.wait("end", after=successor.at, schedule="tick")
    cluster.settle()


def _renewals(cluster: RedisCluster, count: int) -> None:
    """Wait for so many of the lock; the leader renews as often."""
    since = int(cluster.lease(GUARD)["counter"])
    until(lambda: int(cluster.lease(GUARD)["counter"]) >= since + count, "renewals of the lock")


def _known(cluster: RedisCluster) -> Callable[[], bool]:
    def known() -> bool:
        client = cluster.lease()["client"]
        return client != "0" and bool(cluster.server.command("CLIENT", "LIST", "ID", client))

    return known
