"""Leases in Redis under the contract: the servers' clocks are moved by libfaketime in step with
ours, so that time passes without waiting.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any

import redis

from tenure.backends.base import LeaseBackend
from tenure.backends.redis import RedisBackend
from tenure.process.clock import SystemClock
from tenure.testing import FakeClock
from tenure.testing.contract import LeaseHarness
from tests.support.servers import ValkeyServer

_numbers = count()


class RedisHarness(LeaseHarness):
    ttl = 100.0
    """The servers' own time passes too: a busy machine may take seconds between two calls."""

    def __init__(self, url: str, servers: Sequence[ValkeyServer]) -> None:
        self.url = url
        self.servers = servers
        self.shift = 0.0
        self.clock = FakeClock(SystemClock().now())
        self.namespace = f"test-{next(_numbers)}"
        self.opened: list[RedisBackend] = []
        self.lines = [redis.Redis.from_url(server.url) for server in servers]
        self._move(0.0)

    async def another(self) -> LeaseBackend:
        backend = RedisBackend(self.url, namespace=self.namespace, clock=self.clock)
        await backend.open()
        self.opened.append(backend)
        return backend

    async def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self._move(self.shift + seconds)

    @property
    def jump(self) -> Callable[[float], None]:
        return lambda seconds: self._move(self.shift + seconds)

    async def delete(self, name: str) -> bool | None:
        self._at_its_server(lambda line: line.delete(self._key(name)))
        return True

    async def spoil(self, name: str, **values: Any) -> bool | None:
        if "expiry" in values:
            expiry = values.pop("expiry")
            values |= {"expires_at": expiry, "expires_boot": expiry}
        for field, value in values.items():
            if value is None:
                self._at_its_server(lambda line, field=field: line.hdel(self._key(name), field))
            else:
                put = {field: str(value)}
                self._at_its_server(lambda line, put=put: line.hset(self._key(name), mapping=put))
        return True

    def _key(self, name: str) -> str:
        return f"tenure:{{{self.namespace}}}:lease:{name}"

    def _at_its_server(self, act: Callable[..., Any]) -> None:
        """In a cluster the key is with one of them."""
        for line in self.lines:
            with suppress(redis.ResponseError):
                act(line)

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
        # A server that has just been started may have forgotten leases; these have not, for longer
        # than the longest that the contract asks for.
        await harness.advance(500 * harness.ttl)
        yield harness
    finally:
        await harness.close()
