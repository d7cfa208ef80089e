"""Wake-ups on a real Redis: a process hears of what it waits for, and of nothing else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import redis

from tenure.backends.base import lease_topic
from tenure.backends.redis import RedisBackend
from tenure.backends.shared import throttle
from tenure.errors import StoreUnavailable
from tenure.model import Grant
from tenure.process.identity import new_holder
from tests.support.servers import ValkeyServer

PATIENCE = 60.0


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    server = ValkeyServer(clock=True)
    try:
        server.start().age(5_000)
        yield server
    finally:
        server.close()


@pytest.fixture
async def backend(server: ValkeyServer) -> AsyncIterator[RedisBackend]:
    backend = RedisBackend(server.url)
    await backend.open()
    try:
        yield backend
    finally:
        await backend.close()


@pytest.fixture
def line(server: ValkeyServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url, decode_responses=True) as line:
        yield line


async def test_only_what_is_waited_for_is_asked_for(
    backend: RedisBackend, line: redis.Redis
) -> None:
    assert _topics(line) == set()
    stop = backend.wakeups.subscribe(lease_topic("job"), lambda: None)
    also = backend.wakeups.subscribe(lease_topic("job"), lambda: None)
    await _until(lambda: _topics(line) == {"lease:job"})
    stop()
    other = backend.wakeups.subscribe(lease_topic("other"), lambda: None)
    await _until(lambda: _topics(line) == {"lease:job", "lease:other"})
    also()
    other()
    await _until(lambda: _topics(line) == set())


async def test_what_is_waited_for_is_heard(backend: RedisBackend, server: ValkeyServer) -> None:
    heard, others = asyncio.Event(), asyncio.Event()
    stop = backend.wakeups.subscribe(lease_topic("job"), heard.set)
    stop_other = backend.wakeups.subscribe(lease_topic("other"), others.set)
    await _hear(heard)  # subscribed: look, whatever was said before was not heard
    await _hear(others)
    heard.clear()
    others.clear()
    another = RedisBackend(server.url)
    await another.open()
    try:
        grant = await another.leases.acquire("job", new_holder(), 10.0)
        assert isinstance(grant, Grant)
        assert await another.leases.release(grant)
        await _hear(heard)
    finally:
        await another.close()
    assert not others.is_set()
    stop()
    stop_other()


async def test_a_connection_that_is_made_anew_asks_for_all_of_it(
    backend: RedisBackend, line: redis.Redis
) -> None:
    heard = asyncio.Event()
    stop = backend.wakeups.subscribe(lease_topic("job"), heard.set)
    await _until(lambda: _topics(line) == {"lease:job"})
    before = backend.wakeups.client_id
    await _hear(heard)
    heard.clear()
    line.client_kill_filter(_id=str(before))
    await _hear(heard)
    await _until(lambda: _topics(line) == {"lease:job"})
    assert backend.wakeups.client_id not in (None, before)
    stop()


@pytest.mark.slow
async def test_a_connection_that_is_made_anew_leaves_out_what_is_flooded(
    backend: RedisBackend, line: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if that is all there is, the channel of those without a topic too."""
    monkeypatch.setattr(throttle, "UNHEARD", 600.0)
    monkeypatch.setattr(throttle, "HEARD_AT_ONCE", 50)  # what a busy machine can send is a flood
    monkeypatch.setattr(throttle, "HEARD", 1.0)
    heard = asyncio.Event()
    stop = backend.wakeups.subscribe(lease_topic("job"), heard.set)
    stop_other = backend.wakeups.subscribe(lease_topic("other"), lambda: None)
    await _until(lambda: _topics(line) == {"lease:job", "lease:other"})
    await _flood(line, backend.wakeups.channel_of(lease_topic("job")))
    await _reconnect(backend, line)
    await _until(lambda: _topics(line) == {"lease:other"})
    stop_other()
    await _until(lambda: _topics(line) == set())
    await _flood(line, backend.wakeups.channel)
    await _reconnect(backend, line)
    assert _topics(line) == set()
    floods = backend.wakeups._floods
    floods._last = dict.fromkeys(floods._last, (0.0, 0.0))  # they are over
    await _until(lambda: _topics(line) == {"lease:job"})
    heard.clear()
    line.publish(backend.wakeups.channel_of(lease_topic("job")), "x")
    await _hear(heard)
    stop()


async def _reconnect(backend: RedisBackend, line: redis.Redis) -> None:
    before = backend.wakeups.client_id
    line.client_kill_filter(_id=str(before))
    await _until(lambda: backend.wakeups.client_id not in (None, before))


async def _flood(line: redis.Redis, channel: str) -> None:
    """Until nobody listens to it any more."""
    deadline = time.monotonic() + PATIENCE
    while line.publish(channel, "x"):
        assert time.monotonic() < deadline
        await asyncio.sleep(0)


async def test_what_is_asked_while_it_is_closed_leaves_no_connection_behind(
    server: ValkeyServer, line: redis.Redis
) -> None:
    before = {client["id"] for client in line.client_list()}
    backend = RedisBackend(server.url)
    await backend.open()
    asked = [asyncio.create_task(backend.leases.read("never held")) for _ in range(20)]
    await asyncio.sleep(0)  # they have begun, and none has an answer
    await backend.close()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert all(a is None or isinstance(a, StoreUnavailable) for a in answers), answers
    with pytest.raises(StoreUnavailable, match="was closed meanwhile"):
        await backend.leases.read("job")
    # The server learns of it a moment later; what is left behind would stay.
    await _until(lambda: {client["id"] for client in line.client_list()} == before)


def _topics(line: redis.Redis) -> set[str]:
    """What anybody has asked this server for."""
    found = line.pubsub_channels("tenure:{default}:wake:*")
    return {str(channel).split(":wake:")[1] for channel in found}


async def _hear(event: asyncio.Event) -> None:
    async with asyncio.timeout(PATIENCE):
        await event.wait()


async def _until(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not fact():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
