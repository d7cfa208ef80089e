"""Leases in Redis: the server goes away, forgets, stands still, is full, has a wrong clock."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tenure import Leases, StoreUnavailable
from tests.faults.redis import GUARD, SLACK, Clusters, RedisCluster, running_server
from tests.faults.support import TTL, Entry, until
from tests.faults.trust import trusted_until
from tests.support.servers import ValkeyServer

pytestmark = pytest.mark.faults

HOUR = 3600


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


def test_short_restart_with_its_data_changes_nothing(cluster: RedisCluster) -> None:
    """As if the power went. It is up again long before the ttl."""
    holding = cluster.holding()
    cluster.server.stop(signal.SIGKILL)
    cluster.server.start()
    _renewals(cluster)
    assert cluster.lease(GUARD)["term"] == str(holding["term"])
    assert cluster.holding() == holding
    cluster.settle()


def test_away_for_longer_than_the_ttl_nothing_runs_unguarded(cluster: RedisCluster) -> None:
    """One warning for each service at its first failure, and its recovery as information."""
    nodes = [node.who for node in cluster.living("node")]

    down = time.monotonic()
    cluster.server.stop(signal.SIGKILL)
    for who in nodes:
        cluster.journal.fact("lease.suspended", who, after=down)
    suspended = time.monotonic()
    for who in nodes:  # more failures come, and are not told
        assert len(_told(cluster, "unavailable", who, down)) == 1
    time.sleep(2 * 0.5)  # in which an unguarded cluster would have executed four times
    assert not cluster.journal.entries("begin", after=suspended)
    cluster.server.start()
    up = time.monotonic()

    begun = cluster.journal.wait("begin", after=up)
    print(f"first execution after Redis was away: {begun.at - up:.3f} s")  # noqa: T201
    cluster.recover(after=up)
    for who in nodes:
        until(lambda who=who: _told(cluster, "recovered", who, suspended), "recovery to be told")  # type: ignore[misc]
        assert len(_told(cluster, "unavailable", who, down)) == 1
        log = cluster.program(who).output
        assert 'WARNING:tenure.store:store.unavailable service=keeper error="Redis is not' in log
        assert "INFO:tenure.store:store.recovered service=keeper" in log
    cluster.settle()


@pytest.mark.parametrize("how", ["emptied", "restarted empty"])
def test_server_that_forgot_everything(cluster: RedisCluster, how: str) -> None:
    """Leadership goes on at once, under a higher term. A lock waits for whoever may trust it."""
    leading, holding = cluster.in_office(), cluster.holding()
    holder = cluster.program(holding.who)
    cluster.journal.wait("trusts", holder.who, after=time.monotonic())
    holder.freeze()  # trusting, with almost a whole ttl before it

    forgot = time.monotonic()
    if how == "emptied":
        cluster.server.command("FLUSHALL")
    else:
        cluster.server.stop(signal.SIGKILL)
        cluster.server.empty()
        cluster.server.start()

    successor = cluster.leader(after=forgot)
    assert successor["term"] > leading["term"]
    assert successor.at - forgot < 1 + SLACK
    print(f"leader after Redis was {how}: {successor.at - forgot:.3f} s")  # noqa: T201
    entered = cluster.journal.wait("entered", after=forgot)
    assert entered["term"] > holding["term"]
    assert entered["boot"] >= trusted_until(cluster.journal, holder.who)
    assert entered.at - forgot < TTL + 1 + SLACK
    thawed = holder.thaw()
    cluster.journal.wait("lost", holder.who, after=thawed)
    cluster.settle()


def test_server_that_stands_still(cluster: RedisCluster) -> None:
    nodes = [node.who for node in cluster.living("node")]
    process = cluster.server.process
    assert process is not None
    stopped = time.monotonic()
    process.send_signal(signal.SIGSTOP)
    try:
        for who in nodes:
            cluster.journal.fact("lease.suspended", who, after=stopped)
    finally:
        process.send_signal(signal.SIGCONT)
    cluster.recover()
    cluster.settle()


def test_full_memory_takes_nothing_from_those_who_hold(cluster: RedisCluster) -> None:
    leading, holding = cluster.in_office(), cluster.holding()
    cluster.server.command("CONFIG", "SET", "maxmemory", "1")
    try:
        with (
            Leases(cluster.redis_url("test")) as leases,
            pytest.raises(StoreUnavailable, match=r"is full.*CONFIG SET maxmemory"),
        ):
            leases.acquire("another", ttl=0.5)
        _renewals(cluster)
        assert cluster.lease()["term"] == str(leading["term"])
        assert cluster.lease(GUARD)["term"] == str(holding["term"])

        killed = cluster.kill(cluster.program(leading.who))  # nobody can be elected now
        told = cluster.journal.fact("store.unavailable", after=killed, service="elector")
        assert "memory of this Redis is full" in told["error"]
        assert cluster.in_office() == leading
    finally:
        full = time.monotonic()
        cluster.server.command("CONFIG", "SET", "maxmemory", "0")
    cluster.leader(after=full)
    cluster.settle()


def test_clock_of_the_server_is_moved_by_an_hour(cluster: RedisCluster) -> None:
    leading, holding = cluster.in_office(), cluster.holding()
    since = time.monotonic()
    for offset in (HOUR, -HOUR, 0):
        cluster.server.move_clock(offset)
        _renewals(cluster)  # others looked meanwhile: who judges by that clock takes over
    assert cluster.lease()["term"] == str(leading["term"])
    assert cluster.lease(GUARD)["term"] == str(holding["term"])
    assert not cluster.journal.facts("lease.lost", after=since)

    # And if everything is forgotten as well, the store of the schedules knows the last term.
    cluster.server.move_clock(-HOUR)
    _renewals(cluster)
    cluster.server.command("FLUSHALL")
    cluster.leader(after=since)
    cluster.server.move_clock(0)
    cluster.settle()
    terms = [entry["term"] for entry in cluster.journal.facts("leader.took_office")]
    assert all(before < after for before, after in pairwise(terms))
    row = cluster.store.rows("SELECT term FROM tenure_fence WHERE scope = 'tenure/leader'")[0]
    assert row["term"] == terms[-1]


def _renewals(cluster: RedisCluster, count: int = 3) -> None:
    """Wait for so many of the lock; the leader renews as often."""
    since = int(cluster.lease(GUARD)["counter"])
    until(lambda: int(cluster.lease(GUARD)["counter"]) >= since + count, "renewals of the lock")


def _told(cluster: RedisCluster, what: str, who: str, after: float) -> list[Entry]:
    facts = cluster.journal.facts(f"store.{what}", who, after)
    return [fact for fact in facts if fact["service"] == "keeper"]
