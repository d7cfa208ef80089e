"""The leases of the Redis backend, on a real server, pass the contract."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager

import pytest

from tenure.testing.contract import (
    Harness,
    LeaseContract,
    LeaseRecordContract,
    TakeoverContract,
    lease_machine,
)
from tests.contract.redis_harness import RedisHarness, open_harness
from tests.support.servers import ValkeyServer

_servers: list[ValkeyServer] = []


def open_redis() -> AbstractAsyncContextManager[RedisHarness]:
    return open_harness(_servers[-1].url, _servers[-1:])


@pytest.fixture(autouse=True, scope="module")
def server() -> Iterator[None]:
    server = ValkeyServer(clock=True)
    try:
        _servers.append(server.start())
        yield
    finally:
        server.close()


class TestRedis(LeaseContract, LeaseRecordContract, TakeoverContract):
    @pytest.fixture
    async def harness(self) -> AsyncIterator[Harness]:
        async with open_redis() as harness:
            yield harness


TestLeaseMachine = lease_machine(open_redis, examples=30).TestCase
