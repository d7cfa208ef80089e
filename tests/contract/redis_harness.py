"""Leases in Redis under the contract: the servers' clocks are moved by libfaketime in step with
ours, so that time passes without waiting. Redis holds no schedules: those clauses have a memory
store beside it.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count

import redis

from tenure.backends.base import Backend
from tenure.backends.memory import MemoryBackend
from tenure.backends.redis import RedisBackend
from tenure.clock import SystemClock
from tenure.testing import FakeClock
from tenure.testing.contract import Harness
from tests.support.servers import ValkeyServer

_numbers = count()


class Together:
    """Leases in Redis, the rest in memory: as a scheduler may have them."""

    def __init__(self, redis: RedisBackend, memory: MemoryBackend) -> None:
        self.leases, self.wakeups = redis.leases, redis.wakeups
        self.schedules, self.releases, self.runs = memory.schedules, memory.releases, memory.runs
        self.location, self.open, self.close = redis.location, redis.open, redis.close


class RedisHarness(Harness):
    def __init__(self, url: str, servers: Sequence[ValkeyServer]) -> None:
        self.url = url
        self.servers = servers
        self.shift = 0.0
        self.clock = FakeClock(SystemClock().now())
        self.memory = MemoryBackend(self.clock)
        self.namespace = f"test-{next(_numbers)}"
        self.opened: list[RedisBackend] = []
        self.lines = [redis.Redis.from_url(server.url) for server in servers]
        self._move(0.0)

    async def another(self) -> Backend:
        backend = RedisBackend(self.url, namespace=self.namespace, clock=self.clock)
        await backend.open()
        self.opened.append(backend)
        return Together(backend, self.memory)

    async def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self._move(self.shift + seconds)

    @property
    def jump(self) -> Callable[[float], None]:
        return lambda seconds: self._move(self.shift + seconds)

    async def delete(self, name: str) -> bool | None:
        """In a cluster the key is with one of them."""
        for line in self.lines:
            with suppress(redis.ResponseError):
                line.delete(f"tenure:{{{self.namespace}}}:lease:{name}")
        return True

    def _move(self, shift: float) -> None:
        self.shift = shift
        for server in self.servers:
            server.move_clock(shift)
        # A server looks at its clock when it pleases: go on when its scripts see the new time.
        for line in self.lines:
            while abs(_time(line) - time.time() - shift) > 1:
                time.sleep(0.001)

    async def close(self) -> None:
        for backend in self.opened:
            await backend.close()
        for line in self.lines:
            line.close()


def _time(line: redis.Redis) -> float:
    seconds, micros = line.eval("return redis.call('TIME')", 0)
    return int(seconds) + int(micros) / 1e6


@asynccontextmanager
async def open_harness(url: str, servers: Sequence[ValkeyServer]) -> AsyncIterator[RedisHarness]:
    """A harness on these servers, which keep their clocks together."""
    harness = RedisHarness(url, servers)
    try:
        harness.backend = await harness.another()
        # A server that has just been started may have forgotten leases; these have not.
        await harness.advance(5_000)
        yield harness
    finally:
        await harness.close()
