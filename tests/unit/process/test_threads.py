"""Threads that take jobs: one that cannot be started."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tenure.process.threads import Threads


async def test_call_without_a_thread_fails_and_the_next_one_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads, done = Threads("test"), list[str]()
    with monkeypatch.context() as limited:
        limited.setattr(threading.Thread, "start", refused)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            await threads.call(done.append, "refused")
    async with asyncio.timeout(30):
        await threads.call(done.append, "later")
    assert done == ["later"]  # what failed is not done afterwards
    threads.close()


async def test_call_after_the_threads_were_ended_is_done() -> None:
    threads, done = Threads("ended"), list[str]()
    async with asyncio.timeout(30):
        await threads.call(done.append, "before")
        [thread] = [each for each in threading.enumerate() if each.name == "ended"]
        threads.close()
        await asyncio.to_thread(thread.join)
        await threads.call(done.append, "after")
    assert done == ["before", "after"]
    threads.close()
