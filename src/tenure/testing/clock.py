"""A clock that stands still until it is moved."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

_START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClock:
    """A `Clock` for tests on an ordinary event loop: time passes when you say so.

    `advance` is synchronous: it moves the clocks and marks the sleepers whose time has come. They
    go on when the test next awaits something; `await clock.settle()` lets them all have a turn.
    Reading it is safe from any thread, and so is advancing it.
    """

    def __init__(self, start: datetime = _START, boot: float = 1_000.0) -> None:
        self._start = start
        self._boot = boot
        self._elapsed = 0.0
        self._jumped = 0.0
        self._sleepers: list[tuple[float, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed + self._jumped)

    def monotonic(self) -> float:
        return self._boot + self._elapsed

    def advance(self, seconds: float) -> None:
        """Let time pass on both clocks, and wake whoever slept until now."""
        if not 0 <= seconds < math.inf:
            raise ValueError(
                f"advance({seconds!r}): give seconds; time does not go back; see jump()."
            )
        self._elapsed += seconds
        due = [sleeper for sleeper in self._sleepers if sleeper[0] <= self._elapsed]
        self._sleepers = [s for s in self._sleepers if s not in due and not s[2].done()]
        for _, loop, alarm in due:
            with suppress(RuntimeError):  # its loop is closed: nobody sleeps there any more
                loop.call_soon_threadsafe(_ring, alarm)

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an operator or NTP does; no time passes."""
        self._jumped += seconds

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)  # noqa: TID251 - no time passes: others get their turn
        else:
            await self._alarm(seconds)

    async def wait(self, event: asyncio.Event, seconds: float | None) -> bool:
        if event.is_set() or (seconds is not None and seconds <= 0):
            await asyncio.sleep(0)  # noqa: TID251 - a loop of such waits must not starve others
            return event.is_set()
        if seconds is None:
            return await event.wait()
        alarm = self._alarm(seconds)
        told: asyncio.Future[bool] = asyncio.ensure_future(event.wait())
        both: tuple[asyncio.Future[Any], ...] = (alarm, told)
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            alarm.cancel()
            told.cancel()
        return event.is_set()

    def block(self, seconds: float) -> None:
        """Return at once, without letting time pass.

        A driver thread blocks between tries, say for a lock in the database. What it waits for is
        another thread's real work, which goes on in real time; a fake second would never end, and
        one that passed by itself would make the time of a test depend on threads.
        """

    async def settle(self, turns: int = 20) -> None:
        """Give every other task of this loop some turns; no time passes."""
        for _ in range(turns):
            await asyncio.sleep(0)  # noqa: TID251 - no time passes

    def _alarm(self, seconds: float) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        alarm: asyncio.Future[None] = loop.create_future()
        self._sleepers.append((self._elapsed + seconds, loop, alarm))
        return alarm


def _ring(alarm: asyncio.Future[None]) -> None:
    if not alarm.done():
        alarm.set_result(None)
