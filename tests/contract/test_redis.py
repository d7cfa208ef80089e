"""The leases of the Redis backend, on a real server, pass the contract.

The server's clock is moved by libfaketime in step with ours, so that time passes without waiting.
Redis holds no schedules: those clauses have a memory store beside it.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count

import pytest
import redis

from tenure.backends.base import Backend
from tenure.backends.memory import MemoryBackend
from tenure.backends.redis import RedisBackend
from tenure.clock import SystemClock
from tenure.testing import FakeClock
from tenure.testing.contract import (
    Harness,
    LeaseContract,
    LeaseRecordContract,
    TakeoverContract,
    lease_machine,
)
from tests.support.servers import ValkeyServer

_numbers = count()
_servers: list[ValkeyServer] = []


class Together:
    """Leases in Redis, the rest in memory: as a scheduler may have them."""

    def __init__(self, redis: RedisBackend, memory: MemoryBackend) -> None:
        self.leases, self.wakeups = redis.leases, redis.wakeups
        self.schedules, self.runs = memory.schedules, memory.runs
        self.location, self.open, self.close = redis.location, redis.open, redis.close


class RedisHarness(Harness):
    def __init__(self, server: ValkeyServer) -> None:
        self.server = server
        self.shift = 0.0
        self.clock = FakeClock(SystemClock().now())
        self.memory = MemoryBackend(self.clock)
        self.namespace = f"test-{next(_numbers)}"
        self.opened: list[RedisBackend] = []
        self.line = redis.Redis.from_url(server.url)
        self._move(0.0)

    async def another(self) -> Backend:
        backend = RedisBackend(self.server.url, namespace=self.namespace, clock=self.clock)
        await backend.open()
        self.opened.append(backend)
        return Together(backend, self.memory)

    async def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self._move(self.shift + seconds)

    def _move(self, shift: float) -> None:
        self.shift = shift
        self.server.move_clock(shift)
        # The server looks at its clock when it pleases: go on when its scripts see the new time.
        while abs(self._server_time() - time.time() - shift) > 1:
            time.sleep(0.001)

    def _server_time(self) -> float:
        seconds, micros = self.line.eval("return redis.call('TIME')", 0)
        return int(seconds) + int(micros) / 1e6

    async def close(self) -> None:
        for backend in self.opened:
            await backend.close()
        self.line.close()


@asynccontextmanager
async def open_redis() -> AsyncIterator[RedisHarness]:
    harness = RedisHarness(_servers[-1])
    try:
        harness.backend = await harness.another()
        # A server that has just been started may have forgotten leases; this one has not.
        await harness.advance(5_000)
        yield harness
    finally:
        await harness.close()


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
