"""Lanes: how many jobs are done at a time, and what becomes of those that wait."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import NoReturn

import pytest

from tenure.process import lanes as module
from tenure.process.lanes import Lanes
from tenure.process.threads import Threads


async def test_jobs_wait_for_a_lane(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 60.0)
    threads = Threads("lane", 8)
    lanes = Lanes(threads, 2)
    begun, go_on = threading.Semaphore(0), threading.Event()
    order: list[int] = []
    names: set[str] = set()
    ended = threading.Semaphore(0)

    def job(number: int) -> None:
        begun.release()
        assert go_on.wait(30)
        order.append(number)
        names.add(threading.current_thread().name)
        ended.release()

    for number in range(6):
        lanes.submit(partial(job, number))
    for _ in range(2):
        assert await asyncio.to_thread(begun.acquire, timeout=30)
    assert not begun.acquire(blocking=False)
    go_on.set()
    for _ in range(6):
        assert await asyncio.to_thread(ended.acquire, timeout=30)
    assert sorted(order) == [*range(6)]
    assert len(names) <= 2
    threads.close()


async def test_one_that_waits_for_too_long_is_done_beside_them() -> None:
    threads = Threads("lane", 8)
    lanes = Lanes(threads, 1)
    go_on, beside = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    done: list[str] = []

    def first() -> None:
        go_on.wait(30)
        done.append("first")

    def second() -> None:
        done.append("second")
        loop.call_soon_threadsafe(beside.set)

    lanes.submit(first)
    lanes.submit(second)
    async with asyncio.timeout(30):
        await beside.wait()
    assert done == ["second"]
    go_on.set()
    threads.close()


async def test_lane_is_free_again_if_no_thread_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(thread: threading.Thread) -> NoReturn:
        raise RuntimeError("can't start new thread")

    threads = Threads("lane", 8)
    lanes = Lanes(threads, 1)
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    with monkeypatch.context() as limited:
        limited.setattr(threading.Thread, "start", refused)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            lanes.submit(lambda: None)

    def tell() -> None:
        loop.call_soon_threadsafe(done.set)

    lanes.submit(tell)
    async with asyncio.timeout(30):
        await done.wait()
    threads.close()


async def test_one_that_waits_goes_on_to_wait_if_no_thread_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = Threads("lane", 8)
    lanes = Lanes(threads, 1)
    go_on, done = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    def refused(job: object) -> NoReturn:
        asked.set()
        raise RuntimeError("can't start new thread")

    def wait() -> None:
        go_on.wait(30)

    def tell() -> None:
        loop.call_soon_threadsafe(done.set)

    lanes.submit(wait)
    lanes.submit(tell)
    monkeypatch.setattr(threads, "submit", refused)
    async with asyncio.timeout(30):
        await asked.wait()
        assert not done.is_set()
        go_on.set()
        await done.wait()
    threads.close()
