"""PostgreSQL: the line between the leader and the server is cut, dead, or far too slow."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure import StoreUnavailable
from tenure.backends.base import SCHEDULES
from tenure.backends.postgres import PostgresBackend
from tenure.model import Grant
from tenure.process.identity import new_holder
from tenure.testing.contract.harness import adding
from tests.faults.postgres import SLACK, PostgresCluster, running_cluster, running_server
from tests.faults.support import TTL, until
from tests.faults.trust import trusted_until
from tests.support.proxy import Mode, Proxy
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def cluster(server: PostgresServer, tmp_path: Path) -> Iterator[PostgresCluster]:
    with running_cluster(server, tmp_path) as cluster:
        yield cluster


@pytest.fixture
def proxy(server: PostgresServer) -> Iterator[Proxy]:
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.mark.parametrize(("mode", "delay"), [("cut", 0), ("half-open", 0), ("trickle", 0.05)])
def test_isolated_leader_is_succeeded_and_comes_back_as_a_follower(
    cluster: PostgresCluster, proxy: Proxy, mode: Mode, delay: float
) -> None:
    cluster.pair(url=cluster.through(proxy.port))

    proxy.become(mode, delay)
    cluster.journal.write("isolated", "test")
    isolated = cluster.journal.wait("isolated").at

    successor = cluster.leader("other", after=isolated)
    took = successor.at - isolated
    print(f"takeover from a leader whose line is {mode}: {took:.3f} s")  # noqa: T201
    assert took < TTL + 1 + SLACK
    entered = cluster.journal.wait("entered", "guard-2", after=isolated)
    # A lock is not shortened by a missing session.
    assert entered["boot"] >= trusted_until(cluster.journal, "guard-1")
    cluster.journal.fact("lease.suspended", "first", after=isolated)
    cluster.journal.wait("end", "other", after=successor.at)

    proxy.become("pass")
    cluster.journal.write("healed", "test")
    healed = cluster.journal.wait("healed").at

    cluster.journal.fact("leader.left_office", "first", after=isolated)
    cluster.journal.fact("store.recovered", "first", after=healed)
    assert cluster.lease()["term"] == successor["term"]  # it does not lead
    # It works again. As long as the other leads, that one's own worker takes what is short.
    cluster.stop_all("other")
    cluster.journal.wait("end", "first", after=healed)
    cluster.finish()


def test_slow_line_changes_nothing(cluster: PostgresCluster, proxy: Proxy) -> None:
    # With a ttl that a busy machine does not exhaust: renewals come as often as ever.
    cluster.pair(url=cluster.through(proxy.port), ttl=10.0, settings={"heartbeat": TTL / 5})
    term = cluster.lease()["term"]
    proxy.become("slow", 0.05)
    counter = cluster.lease()["counter"]
    until(lambda: cluster.lease()["counter"] > counter + 3, "a few renewals")
    assert cluster.lease()["term"] == term
    cluster.finish()


async def test_a_hint_that_takes_long_costs_nobody_the_session(
    cluster: PostgresCluster, proxy: Proxy
) -> None:
    """Others would take its end for the end of the process."""
    near, far = PostgresBackend(cluster.url), PostgresBackend(cluster.through(proxy.port))
    await far.open()
    await near.open()
    try:
        told = asyncio.Event()
        near.wakeups.subscribe(SCHEDULES, told.set)
        await asyncio.wait_for(told.wait(), 30)  # it looks once more, as soon as it is registered
        told.clear()
        session = far.wakeups.session
        proxy.become("slow", 0.4)
        await far.schedules.change([adding("a", await near.now())])
        await asyncio.wait_for(told.wait(), 30)
        proxy.become("pass")
        await asyncio.sleep(2.0)
        assert far.wakeups.session == session != (None, None)
    finally:
        await near.close()
        await far.close()


async def test_call_takes_one_round_trip(cluster: PostgresCluster, proxy: Proxy) -> None:
    """Limits, work and commit travel together: far from the server that is what counts."""
    backend = PostgresBackend(cluster.through(proxy.port))
    await backend.open()
    try:
        grant = await backend.leases.acquire("far", new_holder(), 30)
        assert isinstance(grant, Grant)
        await backend.now()
        proxy.become("slow", 0.5)  # whoever does not wait for an answer has said all by then
        assert await backend.leases.renew([grant]) == {grant}
        await backend.schedules.due(10)
        assert max(proxy.turns) == 1, "each on a line of its own"
    finally:
        proxy.become("pass")
        await backend.close()


async def test_call_on_a_dead_line_comes_to_an_end(cluster: PostgresCluster, proxy: Proxy) -> None:
    """Also one whose caller sets no limit; and the next call finds a line that works."""
    backend = PostgresBackend(cluster.through(proxy.port), limit=0.5)
    await backend.open()
    try:
        await backend.now()
        proxy.become("half-open")
        begun = time.monotonic()
        with pytest.raises(StoreUnavailable, match="does not answer"):
            list((await backend.schedules.find()).values())
        assert time.monotonic() - begun < 2 + SLACK
        proxy.become("pass")
        assert await backend.schedules.find() == {}
    finally:
        await backend.close()


def test_follower_that_cannot_reach_the_server_disturbs_nobody(
    cluster: PostgresCluster, proxy: Proxy
) -> None:
    cluster.a_node("leader")
    leading = cluster.leader("leader")
    cluster.a_node("cut-off", url=cluster.through(proxy.port))
    cluster.journal.fact("node.started", "cut-off")
    proxy.become("half-open")
    cluster.journal.fact("store.unavailable", "cut-off")
    proxy.become("pass")
    cluster.journal.fact("store.recovered", "cut-off")
    assert cluster.lease()["term"] == leading["term"]
    cluster.finish()
