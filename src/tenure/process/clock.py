"""Time. The only module that reads a clock or sleeps.

A node uses two clocks. The wall clock (`now`) is for people. The boot clock (`monotonic`) measures
how long a lease may still be trusted; it goes on while the machine is suspended, so that a laptop
or a virtual machine does not wake up believing in a lease that expired while it slept.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Protocol

_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", None)


class Clock(Protocol):
    """Where every reading of time comes from."""

    def now(self) -> datetime:
        """The wall clock: aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment before this process started; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let `seconds` pass."""
        ...

    async def wait(self, event: asyncio.Event, seconds: float | None) -> bool:
        """Wait until the event is set, for at most `seconds`. Say whether it is set."""
        ...

    def block(self, seconds: float) -> None:
        """Block the calling thread: for store drivers on a thread of their own."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        if _BOOT_CLOCK is None:
            return time.monotonic()
        return time.clock_gettime(_BOOT_CLOCK)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def wait(self, event: asyncio.Event, seconds: float | None) -> bool:
        return await wait_event(event, seconds)

    def block(self, seconds: float) -> None:
        time.sleep(seconds)


async def wait_event(event: asyncio.Event, seconds: float | None) -> bool:
    """Wait on the running loop's own time; the clocks here and in tests share it."""
    if not event.is_set() and (seconds is None or seconds > 0):
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            pass
    return event.is_set()


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_micros(moment: datetime) -> int:
    """Microseconds since 1970, exactly: how SQL stores without a time type keep an instant."""
    return (moment - EPOCH) // _MICROSECOND


@lru_cache(maxsize=16_384)  # many schedules are due at the same time, and their runs claimed
def from_micros(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)
