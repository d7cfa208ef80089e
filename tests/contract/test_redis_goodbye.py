"""A connection with TLS is closed when its backend is, however slow the goodbye of both sides."""

from __future__ import annotations

import asyncio
import gc
from asyncio.selector_events import _SelectorTransport  # type: ignore[attr-defined]

import pytest

from tenure.backends.redis import RedisBackend
from tenure.backends.shared.tls_close import finished
from tests.support.proxy import Proxy
from tests.support.redis_servers import TlsFront
from tests.support.servers import ValkeyServer


def open_transports() -> list[object]:
    gc.collect()
    loop = asyncio.get_running_loop()
    # By their type: lazy objects of libraries claim to be of any class once they are asked.
    everything = (o for o in gc.get_objects() if issubclass(type(o), _SelectorTransport))
    return [each for each in everything if each._loop is loop and each._sock is not None]


async def test_nothing_is_left_open_behind_a_slow_line() -> None:
    server = ValkeyServer().start()
    try:
        with TlsFront(server.port) as front, Proxy(front.port) as proxy:
            url = f"rediss://localhost:{proxy.port}/0?ssl_ca_certs={front.ca}"
            backend = RedisBackend(url)
            await backend.open()
            woken = asyncio.Event()
            backend.wakeups.subscribe("runs", woken.set)
            while not woken.is_set():  # it listens
                server.command("PUBLISH", backend.wakeups.channel_of("runs"), "")
                await asyncio.sleep(0.01)
            connections = len(open_transports())
            proxy.become("slow", 0.15)  # longer than a task is left alone that is to end
            await backend.wakeups.close()
            assert len(open_transports()) == connections - 1
            await backend.close()
            assert open_transports() == []
    finally:
        server.close()


async def test_ending_is_finished_and_the_cancellation_is_not_lost() -> None:
    ended, go_on = asyncio.Event(), asyncio.Event()

    async def ending() -> None:
        await go_on.wait()
        ended.set()

    task = asyncio.create_task(finished(ending()))
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_ending_that_fails_says_so() -> None:
    async def ending() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await finished(ending())
