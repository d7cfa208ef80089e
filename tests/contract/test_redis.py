"""The leases of the Redis backend, on a real server, pass the contract."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager

import pytest

from tenure.backends.redis import wakeups
from tenure.testing.contract import LeaseBackendContract, LeaseHarness, leases_only_machine
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


class TestRedis(LeaseBackendContract):
    @pytest.fixture
    async def harness(self) -> AsyncIterator[LeaseHarness]:
        async with open_redis() as harness:
            yield harness

    async def test_close_ends_what_listens_whatever_it_is_doing(
        self, harness: LeaseHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Above all asking whether the line is alive: the driver may take a cancellation there."""
        monkeypatch.setattr(wakeups, "SILENCE", 0.001)
        for number in range(30):
            backend = await harness.another()
            await asyncio.sleep(0.0002 * (number % 10))
            closing = asyncio.create_task(backend.close())
            done, _ = await asyncio.wait([closing], timeout=30)
            assert done, "close() does not come to an end"


TestLeaseMachine = leases_only_machine(open_redis, examples=30).TestCase
