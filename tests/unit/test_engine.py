"""Tenure's own thread and loop."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from contextlib import suppress

import pytest

from tenure.engine import Engine
from tenure.errors import TenureError


async def test_close_cancels_what_is_under_way_and_does_not_wait_for_itself() -> None:
    cancelled = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    engine = Engine()
    under_way = asyncio.run_coroutine_threadsafe(forever(), engine.loop)
    await engine.call_async(asyncio.sleep(0))
    begun = time.monotonic()
    engine.close()
    assert time.monotonic() - begun < 0.5
    assert under_way.cancelled()
    assert cancelled == [True]


def test_a_call_gives_what_it_returns_or_raises() -> None:
    async def add(one: int, other: int) -> int:
        await asyncio.sleep(0)
        if other == 0:
            raise ValueError("nothing to add")
        return one + other

    engine = Engine()
    assert engine.call(add(1, 2)) == 3
    with pytest.raises(ValueError, match="nothing to add"):
        engine.call(add(1, 0))
    engine.close()


def test_a_call_under_way_when_the_engine_closes_says_so() -> None:
    engine, begun = Engine(), threading.Event()

    async def forever() -> None:
        begun.set()
        await asyncio.Event().wait()

    def close() -> None:
        begun.wait(timeout=10)
        engine.close()

    closing = threading.Thread(target=close)
    closing.start()
    with pytest.raises(TenureError, match="stopped while this call"):
        engine.call(forever())
    closing.join(timeout=10)


def test_an_interrupted_call_is_cancelled() -> None:
    engine, begun, ended = Engine(), threading.Event(), threading.Event()

    async def forever() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    def interrupt() -> None:
        begun.wait(timeout=10)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        engine.call(forever())
    assert ended.wait(timeout=10)
    interrupting.join(timeout=10)
    engine.close()


def test_call_made_while_the_engine_closes_is_answered() -> None:
    """Whoever asks at the very moment of a stop gets a result or an error, never silence."""
    for _ in range(20):
        engine, enough = Engine(), threading.Event()

        def ask(engine: Engine = engine, enough: threading.Event = enough) -> None:
            while not enough.is_set():
                with suppress(TenureError):
                    assert engine.call(_answer()) == 42

        asking = [threading.Thread(target=ask, daemon=True) for _ in range(3)]
        for thread in asking:
            thread.start()
        engine.close()
        enough.set()
        for thread in asking:
            thread.join(timeout=10)
            assert not thread.is_alive()
        engine.close()


async def _answer() -> int:
    return 42
