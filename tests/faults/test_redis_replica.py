"""Leases in Redis: a replica that missed the last grants becomes the server."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tenure import Leases, StoreUnavailable
from tests.faults.redis import GUARD, SLACK, RedisCluster, running_server
from tests.faults.support import TTL
from tests.faults.trust import trusted_until
from tests.support.proxy import Proxy
from tests.support.servers import ValkeyServer

pytestmark = pytest.mark.faults


@pytest.fixture
def server() -> Iterator[ValkeyServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def replica() -> Iterator[ValkeyServer]:
    with running_server() as replica:
        yield replica


@pytest.fixture
def cluster(server: ValkeyServer, tmp_path: Path) -> Iterator[RedisCluster]:
    cluster = RedisCluster(tmp_path, server)
    try:
        yield cluster
    finally:
        cluster.end()
        print(cluster.logs())  # noqa: T201 - pytest shows it with a failure


def test_failed_over_to_a_replica_that_missed_the_last_grants(
    cluster: RedisCluster, server: ValkeyServer, replica: ValkeyServer
) -> None:
    """It knows the leader and the holder before the last ones: one is dead, one only frozen."""
    with Proxy(server.port) as link:
        replica.follow(link.port)
        cluster.crowd()
        third = cluster.a_guard()
        cluster.journal.wait("asked", third.who)
        leading, holding = cluster.in_office(), cluster.holding()
        holder = cluster.program(holding.who)

        link.become("half-open")  # from here on it hears of nothing
        frozen = holder.freeze()
        killed = cluster.kill(cluster.program(leading.who))
        missed = cluster.leader(after=killed)
        entered = cluster.journal.wait("entered", after=frozen)
        last = cluster.program(entered.who)
        cluster.journal.wait("trusts", last.who, after=time.monotonic())
        last.freeze()  # trusting, with almost a whole ttl before it
        server.stop(signal.SIGKILL)
    replica.command("REPLICAOF", "NO", "ONE")
    # Asked before anybody else can reach it: they take at once what they may.
    assert cluster.lease(GUARD, replica)["term"] == str(holding["term"])
    assert cluster.lease(server=replica)["term"] == str(leading["term"])
    failed_over = time.monotonic()
    cluster.fail_over(replica)

    holder.thaw()  # what it had is on record here, and must not be had again for now

    successor = cluster.leader(after=failed_over)
    assert successor.at - failed_over < TTL + 1 + SLACK
    print(f"leader after the failover: {successor.at - failed_over:.3f} s")  # noqa: T201
    assert successor["term"] > missed["term"] > leading["term"]
    others = [guard.who for guard in cluster.living("guard") if guard.who != last.who]
    trusting = cluster.journal.wait("trusts", others, after=failed_over)
    assert trusting["boot"] >= trusted_until(cluster.journal, last.who)
    assert trusting.at - failed_over < TTL + 1 + SLACK
    thawed = last.thaw()
    cluster.journal.wait("lost", last.who, after=thawed)
    cluster.recover()
    terms = [entry["term"] for entry in cluster.journal.facts("leader.took_office")]
    assert all(before < after for before, after in pairwise(terms))

    _pointed_to_a_replica(cluster, replica)
    cluster.finish()


def _pointed_to_a_replica(cluster: RedisCluster, master: ValkeyServer) -> None:
    """One that is read-only: nobody acts, everybody says what to do, and all come back."""
    with running_server() as other:
        other.follow(master.port)
        begun = time.monotonic()
        cluster.fail_over(other)
        try:
            with (
                Leases(cluster.redis_url("test")) as leases,
                pytest.raises(StoreUnavailable, match=r"is a replica.*Give the master's address"),
            ):
                leases.acquire("another", ttl=0.5)
            for node in cluster.living("node"):
                # Perhaps not the first: a call that was under way has lost its connection.
                cluster.journal.unavailable("is a replica", node.who, begun, service="keeper")
        finally:
            cluster.fail_over(master)
    cluster.recover()
