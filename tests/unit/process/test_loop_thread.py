"""Tenure's own thread and loop."""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import suppress
from typing import NoReturn

import pytest

from tenure.errors import TenureError
from tenure.process import loop_thread
from tenure.process.loop_thread import LoopThread


async def test_close_cancels_what_is_under_way_and_does_not_wait_for_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop_thread, "SETTLE", 60.0)  # longer than closing waits for the thread
    cancelled = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    thread = LoopThread("closed at once")
    under_way = asyncio.run_coroutine_threadsafe(forever(), thread.loop)
    await thread.call_async(asyncio.sleep(0))
    thread.close()
    assert "closed at once" not in {each.name for each in threading.enumerate()}
    assert under_way.cancelled()
    assert cancelled == [True]


def test_a_call_gives_what_it_returns_or_raises() -> None:
    async def add(one: int, other: int) -> int:
        await asyncio.sleep(0)
        if other == 0:
            raise ValueError("nothing to add")
        return one + other

    thread = LoopThread()
    assert thread.call(add(1, 2)) == 3
    with pytest.raises(ValueError, match="nothing to add"):
        thread.call(add(1, 0))
    thread.close()


@pytest.mark.parametrize("how", ["exit", "interrupt", "stop", "another task"])
def test_only_close_ends_the_loop(how: str, caplog: pytest.LogCaptureFixture) -> None:
    """What runs there may belong to the application, and do what it should not."""
    thread = LoopThread("meddled with")

    async def leave() -> NoReturn:
        raise SystemExit(3)

    async def meddle() -> None:
        loop = asyncio.get_running_loop()
        match how:
            case "exit" | "interrupt":
                loop.call_soon(_raise, SystemExit(3) if how == "exit" else KeyboardInterrupt())
            case "stop":
                loop.stop()
            case _:
                other = loop.create_task(leave())
                await asyncio.wait([other])
                assert isinstance(other.exception(), SystemExit)
        await asyncio.sleep(0.01)

    async def fine() -> str:
        return "fine"

    thread.call(meddle())
    assert thread.call(fine()) == "fine"
    assert len([record for record in caplog.records if record.name == "tenure.loop"]) == (
        how != "stop"
    )
    thread.close()
    assert "meddled with" not in {each.name for each in threading.enumerate()}


def _raise(error: BaseException) -> NoReturn:
    raise error


def test_a_loop_that_ends_does_not_wake_those_who_wait_for_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop_thread, "SETTLE", 30.0)
    thread, cancelled, ended = LoopThread(), threading.Event(), threading.Event()
    next_one = threading.Event()

    async def slow_to_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
            while not next_one.is_set():  # noqa: ASYNC110 - set on another loop
                await asyncio.sleep(0.01)

    async def until_the_first_has_ended() -> str:
        next_one.set()
        await asyncio.to_thread(ended.wait, 30)
        await asyncio.sleep(0.1)
        return "its own result"

    def close() -> None:
        thread.close()
        ended.set()

    asyncio.run_coroutine_threadsafe(slow_to_end(), thread.loop)
    thread.call(asyncio.sleep(0))
    closer = threading.Thread(target=close)
    closer.start()
    assert cancelled.wait(timeout=30)
    assert thread.call(until_the_first_has_ended()) == "its own result"
    closer.join(timeout=30)
    thread.close()


def test_a_call_under_way_when_the_thread_closes_says_so() -> None:
    thread, begun = LoopThread(), threading.Event()

    async def forever() -> None:
        begun.set()
        await asyncio.Event().wait()

    def close() -> None:
        begun.wait(timeout=30)
        thread.close()

    closing = threading.Thread(target=close)
    closing.start()
    with pytest.raises(TenureError, match="stopped while this call"):
        thread.call(forever())
    closing.join(timeout=30)


def test_an_interrupted_call_is_cancelled() -> None:
    thread, begun, ended = LoopThread(), threading.Event(), threading.Event()

    async def forever() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    def interrupt() -> None:
        begun.wait(timeout=30)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        thread.call(forever())
    assert ended.wait(timeout=30)
    interrupting.join(timeout=30)
    thread.close()


def test_call_made_while_the_thread_closes_is_answered() -> None:
    """Whoever asks at the very moment of a stop gets a result or an error, never silence."""
    for _ in range(20):
        thread, enough = LoopThread(), threading.Event()

        def ask(thread: LoopThread = thread, enough: threading.Event = enough) -> None:
            while not enough.is_set():
                with suppress(TenureError):
                    assert thread.call(_answer()) == 42

        asking = [threading.Thread(target=ask, daemon=True) for _ in range(3)]
        for asker in asking:
            asker.start()
        thread.close()
        enough.set()
        for asker in asking:
            asker.join(timeout=30)
            assert not asker.is_alive()
        thread.close()


async def _answer() -> int:
    return 42
