"""Calls to Redis end when they must: at their limit, and at once when they are cancelled. Whatever
happened to the calls before it, a call gets the answer to its own question."""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tenure.backends.redis import RedisBackend, client, deadline
from tenure.backends.redis.client import bounded
from tenure.backends.redis.leases import RedisLeases
from tenure.errors import StoreUnavailable
from tenure.model import Grant, Holder, LeaseRecord
from tenure.process.identity import new_holder
from tests.faults.redis import long_running_server
from tests.support.proxy import Mode, Proxy
from tests.support.redis_servers import SentinelSetup
from tests.support.servers import ValkeyServer

pytestmark = pytest.mark.faults

TIMES = 200
_numbers = itertools.count()
NAMES = [f"lease-{number}" for number in range(20)]
SOON = 4.0  # a call that is not ended takes 5 s
"""Seconds in which "at once" has to happen, on a busy machine."""


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    with long_running_server() as server:
        yield server


@pytest.fixture
def proxy(server: ValkeyServer) -> Iterator[Proxy]:
    with Proxy(server.port) as proxy:
        yield proxy


@asynccontextmanager
async def opened(proxy: Proxy) -> AsyncIterator[RedisBackend]:
    """A backend with a lease for each name, held by a holder of that name."""
    url = f"redis://127.0.0.1:{proxy.port}/0"
    backend = RedisBackend(url, namespace=f"calls-{next(_numbers)}")
    await backend.open()
    try:
        for name in NAMES:
            await backend.leases.acquire(name, holder(name), 600)
        yield backend
    finally:
        proxy.become("pass")
        await backend.close()


def holder(name: str) -> Holder:
    return replace(new_holder(), id=name)


async def asked(backend: RedisBackend, name: str) -> None:
    """Three questions of several commands each, and the answers must be about this lease."""
    record = await backend.leases.read(name)
    assert record is not None
    assert (record.name, record.holder) == (name, name)
    [tenure] = await backend.leases.history(name)
    assert tenure.holder == name
    refused = await backend.leases.acquire(name, holder("other"), 60)
    assert isinstance(refused, LeaseRecord)
    assert refused.holder == name


@pytest.mark.parametrize(("mode", "delay"), [("pass", 0.0), ("slow", 0.001)])
async def test_a_call_that_is_cancelled_ends_at_once(
    proxy: Proxy, mode: Mode, delay: float
) -> None:
    chance = random.Random(mode)
    async with opened(proxy) as backend:
        proxy.become(mode, delay)
        cancelled = 0
        while cancelled < TIMES:
            calls = [asyncio.create_task(asked(backend, name)) for name in chance.sample(NAMES, 3)]
            await asyncio.sleep(chance.random() * (0.005 + 12 * delay))
            for _ in range(
                chance.randrange(8)
            ):  # turns of the loop, in which nothing is waited for
                await asyncio.sleep(0)
            if not calls[0].cancel():
                await asyncio.gather(*calls)
                continue
            cancelled += 1
            at = time.monotonic()
            await asyncio.wait(calls[:1])
            assert calls[0].cancelled(), f"cancellation {cancelled} was lost"
            assert time.monotonic() - at < SOON
            await asyncio.gather(*calls[1:])  # the others were not touched
        proxy.become("pass")
        await asyncio.gather(*(asked(backend, name) for name in NAMES[:3]))
        # One that listens, and of those for calls no more than were ever needed at once.
        await _until(lambda: proxy.lines <= 1 + 3)
    await _until(lambda: not proxy.lines)


async def _until(condition: Callable[[], bool]) -> None:
    """The loop goes on meanwhile: it is what closes connections."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)


async def test_a_call_that_is_cancelled_on_a_dead_line_ends_at_once(proxy: Proxy) -> None:
    async with opened(proxy) as backend:
        proxy.become("half-open")
        for name in NAMES:
            call = asyncio.create_task(asked(backend, name))
            await asyncio.sleep(0.01)
            at = time.monotonic()
            call.cancel()
            await asyncio.wait([call])
            assert call.cancelled()
            assert time.monotonic() - at < SOON
        proxy.become("cut")
        proxy.become("pass")
        await asked(backend, NAMES[0])


async def test_a_call_ends_at_its_limit(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever in its many commands it is by then."""
    chance = random.Random(1)
    async with opened(proxy) as backend:
        proxy.become("slow", 0.001)

        async def many() -> None:
            for name in NAMES * 20:
                await backend._client.exists(name)

        for _ in range(TIMES):
            limit = chance.random() * 0.02
            monkeypatch.setattr(client, "LIMIT", limit)
            at = time.monotonic()
            with pytest.raises(StoreUnavailable, match="did not answer within"):
                await bounded(many())
            assert time.monotonic() - at < limit + SOON
        monkeypatch.undo()
        proxy.become("pass")
        await asked(backend, NAMES[0])


async def test_what_fails_while_it_is_cancelled_is_said_by_nobody(proxy: Proxy) -> None:
    """Not even by the loop, as an error that nobody asked for."""
    said: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))

    async def stubborn() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise ConnectionError("gone") from None

    call = asyncio.create_task(bounded(stubborn()))
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.wait([call])
    assert call.cancelled()
    del call
    await asyncio.sleep(0)
    assert said == []


# -- on the thread of the caller ------------------------------------------------------------------


@contextmanager
def blocking(url: str) -> Iterator[RedisLeases]:
    leases = RedisBackend(url).leases
    try:
        yield leases
    finally:
        leases._line.close()


def took(call: Callable[[], object]) -> float:
    """Until it says that there is no answer."""
    at = time.monotonic()
    with pytest.raises(StoreUnavailable):
        call()
    return time.monotonic() - at


@pytest.mark.parametrize(("mode", "delay"), [("slow", 0.2), ("trickle", 0.05), ("half-open", 0.0)])
def test_a_blocking_call_ends_at_its_limit(
    server: ValkeyServer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, mode: Mode, delay: float
) -> None:
    """To connect, to log in, to load a script and to run it: each of them would be in time."""
    monkeypatch.setattr(deadline, "LIMIT", 0.7)
    with blocking(f"redis://127.0.0.1:{proxy.port}/1") as leases:
        server.command("SCRIPT", "FLUSH")
        proxy.become(mode, delay)
        for name in ("one", "two"):
            assert 0.5 < took(partial(leases.acquire_blocking, name, holder("ann"), 60)) < 10
        proxy.become("cut")
        proxy.become("pass")
        assert isinstance(leases.acquire_blocking("three", holder("ann"), 60), Grant)


def test_an_answer_that_comes_too_late_is_not_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Behind Sentinel, redis-py goes on with a connection whose answer is still to come."""
    setup = SentinelSetup(clock=True)
    try:
        setup.start().master.age(3600)
        sentinel = setup.sentinels[0]
        sentinel.command("SENTINEL", "SET", "tenure-test", "down-after-milliseconds", 60_000)
        with blocking(setup.url) as leases:
            assert isinstance(leases.acquire_blocking("held", holder("ann"), 600), Grant)
            process = setup.master.process
            assert process is not None
            process.send_signal(signal.SIGSTOP)
            monkeypatch.setattr(deadline, "LIMIT", 0.3)
            took(lambda: leases.acquire_blocking("held", holder("bob"), 600))
            monkeypatch.setattr(deadline, "LIMIT", 30.0)
            threading.Timer(0.2, process.send_signal, [signal.SIGCONT]).start()
            assert isinstance(leases.acquire_blocking("free", holder("bob"), 600), Grant)
    finally:
        setup.close()
