"""Tenure's own thread, with its own event loop.

Whatever the application's threads and loops do, this one goes on: heartbeats are renewed and ticks
fire. The façades hand coroutines to it and wait for their results.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from tenure.errors import TenureError

T = TypeVar("T")
_logger = logging.getLogger("tenure.loop")
SETTLE = 1.0
"""How many seconds cancelled tasks have to end."""
STOPPED = (
    "Tenure was stopped while this call was under way: it may have taken effect, or not. Start it"
    " again and look before you repeat the call."
)


class LoopThread:
    """A thread that runs a loop, started when it is first needed.

    A forked child inherits the object but not the thread: it gets a fresh one on its next use.
    """

    def __init__(self, name: str = "tenure") -> None:
        self._name = name
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._waiting: set[threading.Lock] = set()
        """The locks of calls under way on this loop, released when they or the loop have ended."""
        self._ended: set[asyncio.AbstractEventLoop] = set()
        """Those that we have stopped: another's stop, or its exit, ends none."""
        self._pid = os.getpid()

    @property
    def forked(self) -> bool:
        """Is this only a forked copy of an object whose thread runs in the parent?"""
        return self._pid != os.getpid()

    @property
    def here(self) -> bool:
        """Is the caller on this thread?"""
        return threading.current_thread() is self._thread

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._running()[0]

    def _running(self) -> tuple[asyncio.AbstractEventLoop, set[threading.Lock]]:
        """The loop, and the locks of its calls: a loop that ends must not wake the next one's."""
        if self.forked:
            # What was inherited is the parent's: it is left alone, not closed.
            self._guard = threading.Lock()
            self._loop, self._thread, self._pid = None, None, os.getpid()
        with self._guard:
            if self._loop is None:
                self._loop, self._waiting = asyncio.new_event_loop(), set()
                self._thread = threading.Thread(
                    target=self._run, args=(self._loop, self._waiting), name=self._name, daemon=True
                )
                self._thread.start()
            return self._loop, self._waiting

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run it there; block here until it is done."""
        loop, waiting = self._running()
        if self.here:
            coroutine.close()
            raise TenureError(
                "a blocking Tenure call was made from Tenure's own thread, where it would wait"
                " for itself. Make it from a task or from your own thread."
            )
        # What asyncio.run_coroutine_threadsafe does, at half its cost: waiting needs but a lock.
        ended = threading.Lock()
        ended.acquire()
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            tasks.append(loop.create_task(coroutine))
            tasks[0].add_done_callback(done)

        def done(_: asyncio.Task[T]) -> None:
            waiting.discard(ended)
            ended.release()

        def cancel() -> None:
            if tasks:
                tasks[0].cancel()
            else:
                coroutine.close()

        waiting.add(ended)
        try:
            loop.call_soon_threadsafe(begin)
            ended.acquire()
        except BaseException as error:
            waiting.discard(ended)
            if isinstance(error, RuntimeError) and loop.is_closed():
                coroutine.close()
                raise TenureError(STOPPED) from error
            # Interrupted here: then it must not go on there.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(cancel)
            raise
        if not tasks or not tasks[0].done() or tasks[0].cancelled():
            raise TenureError(STOPPED)
        return tasks[0].result()

    async def call_async(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run it there; await it here."""
        loop = self.loop
        if asyncio.get_running_loop() is loop:
            return await coroutine
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, loop))

    def close(self) -> None:
        """Stop the loop and end the thread."""
        if self.forked:
            return
        with self._guard:
            loop, thread = self._loop, self._thread
            self._loop, self._thread = None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(self._end, loop)
            if threading.current_thread() is not thread:
                thread.join(timeout=5)

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ended.add(loop)
        loop.stop()

    def _run(self, loop: asyncio.AbstractEventLoop, waiting: set[threading.Lock]) -> None:
        asyncio.set_event_loop(loop)
        try:
            while loop not in self._ended:
                try:
                    loop.run_forever()
                except (SystemExit, KeyboardInterrupt):
                    # asyncio ends its loop with these, from whatever task or callback they come.
                    _logger.exception("code on %s raised this; the loop goes on", self._name)
            self._ended.discard(loop)
        finally:
            loop.run_until_complete(asyncio.sleep(0))  # noqa: TID251 - what was asked just before
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(_settle())
            loop.close()
            while waiting:  # calls that came too late to be answered
                waiting.pop().release()


async def _settle() -> None:
    """Let what was cancelled come to its end.

    Run bare: before Python 3.12 `wait_for` makes a second task, which this one would then wait for.
    """
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=SETTLE)
