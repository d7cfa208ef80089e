"""Redis with TLS, behind Sentinel and as a cluster: the same leases, and the same contract."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tenure.testing.contract import (
    ForgettingContract,
    LeaseBackendContract,
    LeaseCancellingContract,
    LeaseHarness,
    LeaseRecordContract,
    LeaseWakeupContract,
    TakeoverContract,
)
from tests.contract.redis_harness import open_harness
from tests.support.redis_servers import ClusterSetup, SentinelSetup, TlsFront
from tests.support.servers import ValkeyServer


class _Listening:
    """What the contract leaves open, because polling is the truth: hints do come."""

    async def test_connection_of_a_dead_leader_is_missed(self, harness: LeaseHarness) -> None:
        await harness.grant("job", "ann", fenced=True)
        other = await harness.another()
        record = await other.leases.read("job")
        assert record is not None
        await harness.backend.close()  # as a process that ends without a word
        looks = [await other.leases.suspect(record) for _ in range(3)]
        assert looks[-1]


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    server = ValkeyServer(clock=True)
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture(scope="module")
def front(server: ValkeyServer) -> Iterator[TlsFront]:
    with TlsFront(server.port) as front:
        yield front


@pytest.fixture(scope="module")
def sentinel() -> Iterator[SentinelSetup]:
    setup = SentinelSetup(clock=True)
    try:
        yield setup.start()
    finally:
        setup.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterSetup]:
    setup = ClusterSetup(clock=True)
    try:
        yield setup.start()
    finally:
        setup.close()


class TestTls(
    _Listening,
    LeaseRecordContract,
    ForgettingContract,
    TakeoverContract,
    LeaseWakeupContract,
    LeaseCancellingContract,
):
    """What is carried is no concern of TLS; and where many connect at once, handshakes add up."""

    @pytest.fixture
    async def harness(self, server: ValkeyServer, front: TlsFront) -> AsyncIterator[LeaseHarness]:
        async with open_harness(front.url(ssl_ca_certs=front.ca), [server]) as harness:
            yield harness


class TestSentinel(_Listening, LeaseBackendContract):
    @pytest.fixture
    async def harness(self, sentinel: SentinelSetup) -> AsyncIterator[LeaseHarness]:
        async with open_harness(sentinel.url, [sentinel.master]) as harness:
            yield harness


class TestCluster(_Listening, LeaseBackendContract):
    @pytest.fixture
    async def harness(self, cluster: ClusterSetup) -> AsyncIterator[LeaseHarness]:
        async with open_harness(cluster.url, cluster.nodes) as harness:
            yield harness
