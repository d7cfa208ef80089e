"""Threads that take jobs: how many are started, and one that cannot be."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from typing import NoReturn

import pytest

from tenure.process.threads import Threads
from tests.e2e.command import until


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


async def test_threads_are_started_only_while_none_is_idle_and_never_more_than_allowed() -> None:
    threads, started, go_on = Threads("some", 3), threading.Semaphore(0), threading.Event()

    def named() -> list[str]:
        return sorted(each.name for each in threading.enumerate() if each.name.startswith("some-"))

    def wait() -> None:
        started.release()
        go_on.wait(30)

    async with asyncio.timeout(60):
        for _ in range(10):  # one after the other: the one that has ended takes the next
            await threads.call(lambda: None)
            await asyncio.to_thread(until, lambda: bool(threads._idle), "the thread to be idle")
        assert named() == ["some-1"]
        waiting = [threads.begin(wait) for _ in range(5)]
        for _ in range(3):
            await asyncio.to_thread(started.acquire)
        assert named() == ["some-1", "some-2", "some-3"]
        assert not started.acquire(blocking=False)  # two wait for a thread
        go_on.set()
        await asyncio.gather(*waiting)
        for _ in range(10):
            await asyncio.gather(*(threads.call(lambda: None) for _ in range(5)))
        assert named() == ["some-1", "some-2", "some-3"]
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


@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt, ValueError])
async def test_job_that_raises_ends_no_thread(
    raised: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def leave() -> NoReturn:
        raise raised(3)

    threads = Threads("meddled with")
    async with asyncio.timeout(30):
        for _ in range(2):
            threads.submit(leave)
            assert await threads.call(lambda: "done") == "done"
    assert caplog.text.count("a job on the thread 'meddled with' failed") == 2
    threads.close()


ENDS = """
import asyncio, atexit, threading
from tenure.process.threads import Threads
from tests.e2e.command import until
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()

def end():
    call = Threads("late").call(lambda: "done")
    print(asyncio.run_coroutine_threadsafe(call, loop).result(30))

atexit.register(end)
"""


def test_call_is_done_while_the_process_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDS], check=False, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("done\n", "")
