"""Redis behind Sentinel and as a cluster: a replica takes over, and the leases go on.

The master may have lost its last writes with it. Nobody ever trusts a lock beside another, terms
only grow, and every occurrence is executed once: `settle` looks at the whole history.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tenure.backends.base import lease_topic
from tenure.backends.redis import RedisBackend
from tenure.errors import StoreUnavailable
from tenure.model import Grant
from tenure.process.identity import new_holder
from tests.faults.redis import RedisCluster
from tests.faults.support import until
from tests.support.redis_servers import PATIENCE, ClusterSetup, SentinelSetup
from tests.support.servers import ValkeyServer

pytestmark = pytest.mark.faults
KEY = "tenure:{default}:server"


class WithReplicas(RedisCluster):
    """Processes that find the master by themselves, wherever it is."""

    def __init__(self, folder: Path, setup: SentinelSetup | ClusterSetup) -> None:
        super().__init__(folder, setup.owner(KEY))
        self.database_number = 0
        self.setup = setup

    def redis_url(self, who: str) -> str:
        return self.setup.url

    def lose_master(self) -> float:
        lost = time.monotonic()
        old = self.server
        old.stop(signal.SIGKILL)
        self.server = until(lambda: _another(self.setup, old), "a replica to be promoted")
        print(f"promoted after {time.monotonic() - lost:.1f} s")  # noqa: T201
        return lost


def _another(setup: SentinelSetup | ClusterSetup, old: ValkeyServer) -> ValkeyServer | None:
    owner = setup.owner(KEY)
    return None if owner is old else owner


@pytest.fixture
def sentinel() -> Iterator[SentinelSetup]:
    setup = SentinelSetup(replicas=1)
    try:
        yield setup.start()
    finally:
        setup.close()


@pytest.fixture(scope="module")
def nodes() -> Iterator[ClusterSetup]:
    setup = ClusterSetup(replicas=True)
    try:
        yield setup.start()
    finally:
        setup.close()


def test_sentinel_promotes_a_replica_of_a_killed_master(
    sentinel: SentinelSetup, tmp_path: Path
) -> None:
    cluster = WithReplicas(tmp_path, sentinel)
    try:
        cluster.crowd()
        lost = cluster.lose_master()
        cluster.recover()
        executed = cluster.journal.wait("begin", after=lost)
        print(f"first execution {executed.at - lost:.1f} s after the kill")  # noqa: T201
        offices = [office["term"] for office in cluster.journal.facts("leader.took_office")]
        assert all(earlier < later for earlier, later in pairwise(offices))
        cluster.finish()
    except BaseException:
        print(cluster.logs())  # noqa: T201 - pytest shows it with a failure
        raise
    finally:
        cluster.end()


async def test_a_cluster_that_fails_over_politely_is_followed(nodes: ClusterSetup) -> None:
    """The old master goes on as a replica, and ends no connection: that is noticed all the same."""
    owner = nodes.owner(KEY)
    replica = nodes.nodes[nodes.nodes.index(owner) + 3]
    await _followed(nodes, lambda: replica.command("CLUSTER", "FAILOVER"))
    assert nodes.owner(KEY) is replica


async def test_a_killed_node_of_a_cluster_is_replaced_by_its_replica(nodes: ClusterSetup) -> None:
    owner = nodes.owner(KEY)
    await _followed(nodes, lambda: owner.stop(signal.SIGKILL))
    assert nodes.owner(KEY) is not owner


async def _followed(nodes: ClusterSetup, fail_over: Callable[[], object]) -> None:
    """Leases, hints and wake-ups go on, on the node that has taken over."""
    ours, others = RedisBackend(nodes.url), RedisBackend(nodes.url)
    old, heard = nodes.owner(KEY), asyncio.Event()

    async def served_by_another(grant: Grant) -> bool:
        for backend in (ours, others):
            try:
                assert await backend.leases.renew([grant]) == {grant}
            except StoreUnavailable:  # for a moment there is no master
                return False
        return first != ours.wakeups.run == others.wakeups.run

    try:
        await ours.open()
        await others.open()
        first = ours.wakeups.run
        grant = await ours.leases.acquire("job", new_holder(), 60.0, fenced=True)
        assert isinstance(grant, Grant)
        await asyncio.to_thread(fail_over)
        await asyncio.to_thread(until, lambda: _another(nodes, old), "another to be promoted")
        await _until(lambda: served_by_another(grant))
        stop = others.wakeups.subscribe(lease_topic("job"), heard.set)
        record = await others.leases.read("job")
        assert record is not None
        assert record.live
        assert not await others.leases.suspect(record)
        assert await ours.leases.release(grant)
        await asyncio.wait_for(heard.wait(), PATIENCE)
        stop()
        again = await others.leases.acquire("job", new_holder(), 60.0, fenced=True)
        assert isinstance(again, Grant)
        assert again.term > grant.term
        assert await others.leases.release(again)
    finally:
        await ours.close()
        await others.close()


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.05)
