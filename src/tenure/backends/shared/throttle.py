"""Keeps a flood of wake-ups cheap.

Anyone who can connect to a store can send false wake-ups, thousands of times a second. So each
topic is passed on a limited number of times, and a flooded channel is not listened to for a while.
The first wake-up after a quiet time is passed on at once, and the last one is never lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tenure.backends.base import MOST_WAKES
from tenure.backends.shared.callbacks import Callbacks

HEARD_AT_ONCE, HEARD = 500, 200.0
"""A flood is a burst of more messages on a channel than the first, or more per second than the
second."""
UNHEARD, LONGEST_UNHEARD = 1.0, 8.0
"""How many seconds a flooded channel is ignored; twice as long each time, while the flood lasts."""
LOOK_EVERY = 1.0
"""Meanwhile its topics are passed on every so many seconds, so that subscribers poll."""


class Allowance:
    """A token bucket: so many at once, then so many per second."""

    def __init__(self, at_once: int, per_second: float) -> None:
        self._at_once = at_once
        self._per_second = per_second
        self._left = float(at_once)
        self._as_of = float("-inf")

    def take(self, now: float) -> bool:
        """Take one, if one is left."""
        gained = max(0.0, now - self._as_of) * self._per_second
        self._left, self._as_of = min(self._left + gained, self._at_once), now
        if self._left < 1:
            return False
        self._left -= 1
        return True

    @property
    def wait(self) -> float:
        """How many seconds after the last `take` the next one succeeds."""
        return max(0.0, 1 - self._left) / self._per_second


class ThrottledCallbacks(Callbacks):
    """Callbacks that are called a limited number of times per second and topic: what comes too
    often is merged, and passed on a moment later."""

    def __init__(self) -> None:
        super().__init__()
        self._allowances: dict[str, Allowance] = {}
        self._late: dict[str, asyncio.TimerHandle] = {}

    def subscribe(self, topic: str, callback: Callable[[], None]) -> Callable[[], None]:
        stop = super().subscribe(topic, callback)

        def unsubscribe() -> None:
            stop()
            if topic not in self._callbacks:
                self._allowances.pop(topic, None)
                if late := self._late.pop(topic, None):
                    late.cancel()

        return unsubscribe

    def call(self, topic: str) -> None:
        if topic in self._late or topic not in self._callbacks:
            return
        allowance = self._allowances.get(topic)
        if allowance is None:
            allowance = self._allowances[topic] = Allowance(MOST_WAKES, MOST_WAKES)
        loop = asyncio.get_running_loop()
        if allowance.take(loop.time()):
            super().call(topic)
        else:
            self._late[topic] = loop.call_later(allowance.wait, self._call_late, topic)

    def close(self) -> None:
        """Cancel the late calls."""
        while self._late:
            self._late.popitem()[1].cancel()

    def _call_late(self, topic: str) -> None:
        self._late.pop(topic, None)
        if allowance := self._allowances.get(topic):
            allowance.take(asyncio.get_running_loop().time())
        super().call(topic)


class Floods:
    """The channels that are ignored at the moment because they are flooded."""

    def __init__(self, look: Callable[[str], None], over: Callable[[str], None]) -> None:
        """Called with a channel: `look` now and then while it is ignored, `over` after that."""
        self._look = look
        self._over = over
        self._allowances: dict[str, Allowance] = {}
        self._unheard: dict[str, asyncio.TimerHandle] = {}
        self._last: dict[str, tuple[float, float]] = {}
        """How long each was ignored the last time, and when that ended."""

    def __contains__(self, channel: object) -> bool:
        return channel in self._unheard

    def heard(self, channel: str) -> bool:
        """A message came. True if it was one too many: stop listening to this channel."""
        now = asyncio.get_running_loop().time()
        allowance = self._allowances.setdefault(channel, Allowance(HEARD_AT_ONCE, HEARD))
        if channel in self._unheard or allowance.take(now):
            return False
        pause, ended = self._last.get(channel, (0.0, 0.0))
        pause = min(2 * pause, LONGEST_UNHEARD) if now - ended < pause else UNHEARD
        self._last[channel] = pause, now + pause
        self._wait(channel)
        return True

    def forget(self, channels: set[str]) -> None:
        """Drop all channels but these."""
        for channel in self._allowances.keys() - channels:
            del self._allowances[channel]
            self._last.pop(channel, None)
            if waiting := self._unheard.pop(channel, None):
                waiting.cancel()

    def close(self) -> None:
        while self._unheard:
            self._unheard.popitem()[1].cancel()

    def _wait(self, channel: str) -> None:
        loop = asyncio.get_running_loop()
        left = self._last[channel][1] - loop.time()
        if left > 0:
            delay = min(left, LOOK_EVERY)
            self._unheard[channel] = loop.call_later(delay, self._waited, channel)
        else:
            del self._unheard[channel]
            self._over(channel)

    def _waited(self, channel: str) -> None:
        self._look(channel)
        self._wait(channel)
