"""What a consumer does on Tenure's own loop: join its group, and wait for events."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from tenure.backends.base import EVENTS, Backend, Connects, Joins
from tenure.errors import ConfigError
from tenure.process.clock import Clock
from tenure.scheduler import transaction
from tenure.tasks.arguments import check_name, seconds, whole
from tenure.tasks.event_checks import check_topic

LIMIT_MOST = 10_000
LOOK_EVERY = 2.0
"""A wake-up may be lost: at most so many seconds pass until the next look."""
PAUSE = 0.05
"""If there are events and other consumers of the group are at them."""
IDLE = 60.0


@runtime_checkable
class Consumable(Joins, Connects, Backend, Protocol):
    """A store on which users have transactions."""


class Following:
    """One consumer's part in its group."""

    def __init__(
        self,
        topic: str,
        group: str,
        clock: Clock,
        *,
        limit: int = 100,
        from_now: bool = False,
        wait: float | None = None,
        transaction_idle: float = IDLE,
    ) -> None:
        self.topic = check_topic(topic)
        self.group = check_name(group, "group")
        self.limit = whole("limit", limit, 1, LIMIT_MOST)
        self.transaction_idle = seconds("transaction_idle", transaction_idle)
        self._wait = None if wait is None else seconds("wait", wait, zero=True)
        self._from_now = from_now
        self._clock = clock
        self._woken = asyncio.Event()
        self._unsubscribe: Callable[[], None] | None = None
        self._backend: Consumable | None = None
        self._in_the_way = False
        self.stopped = False

    @property
    def backend(self) -> Consumable:
        if self._backend is None:
            raise ConfigError(
                "this consumer is not open: use it in `with scheduler.consumer(…) as consumer:`."
            )
        return self._backend

    async def open(self, backend: Backend) -> None:
        if not isinstance(backend, Consumable):
            raise ConfigError(
                "a consumer commits how far it has read in a transaction of yours, and"
                f" {backend.location} has none: use SQLite or PostgreSQL."
            )
        await transaction.ready(backend)
        await backend.events.follow(self.topic, self.group, from_now=self._from_now)
        self._unsubscribe = backend.wakeups.subscribe(EVENTS, self._woken.set)
        self._backend = backend
        self.stopped = False

    async def close(self) -> None:
        self.stop()
        if self._unsubscribe is not None:
            self._unsubscribe()
        self._unsubscribe = self._backend = None

    def stop(self) -> None:
        self.stopped = True
        self._woken.set()

    async def wait(self) -> bool:
        """Wait until there is something to take. False if the consumer was stopped, or has waited
        as long as it wants to."""
        events = self.backend.events
        until = math.inf if self._wait is None else self._clock.monotonic() + self._wait
        if self._in_the_way:
            await self._clock.sleep(PAUSE)
        while not self.stopped:
            self._woken.clear()
            if await events.has_unread(self.topic, self.group):
                return True
            left = until - self._clock.monotonic()
            if left <= 0:
                return False
            await self._clock.wait(self._woken, min(left, LOOK_EVERY))
        return False

    def took(self, count: int) -> None:
        """So many events were taken: none, if others were quicker."""
        self._in_the_way = count == 0
