"""Wake-ups on SQLite: reads the lock file's numbers every few milliseconds, without queries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from tenure.backends.shared.throttle import ThrottledCallbacks
from tenure.backends.sqlite.locks.lockfile import LockFile
from tenure.process.clock import Clock

LOOK_EVERY = 0.015


class Sends(Protocol):
    """Wakes others after a change: at once, or once the user's transaction has committed."""

    def send(self, topic: str) -> None: ...


class SQLiteWakeups:
    """Calls back when another process, or this one, changed a topic's number."""

    def __init__(self, lock_file: LockFile, clock: Clock) -> None:
        self._lock_file = lock_file
        self._clock = clock
        self._callbacks = ThrottledCallbacks()
        self._numbers: dict[str, bytes] = {}
        self._task: asyncio.Task[None] | None = None

    def subscribe(self, topic: str, callback: Callable[[], None]) -> Callable[[], None]:
        forget = self._callbacks.subscribe(topic, callback)
        self._numbers[topic] = self._lock_file.number(topic)
        if self._task is None:
            self._task = asyncio.create_task(self._watch(), name="tenure wake-ups")

        def unsubscribe() -> None:
            forget()
            if not self._callbacks.topics:
                self.close()

        return unsubscribe

    def send(self, topic: str) -> None:
        """Wake other processes within milliseconds, and this one at once."""
        self._lock_file.wake(topic)
        if topic in self._numbers:
            self._numbers[topic] = self._lock_file.number(topic)
            self._callbacks.call(topic)

    def close(self) -> None:
        self._callbacks.close()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _watch(self) -> None:
        while True:
            for topic in self._callbacks.topics:
                number = self._lock_file.number(topic)
                if number != self._numbers[topic]:
                    self._numbers[topic] = number
                    self._callbacks.call(topic)
            await self._clock.sleep(LOOK_EVERY)
