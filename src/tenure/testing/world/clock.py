"""The clocks of a world: one for its store and all its nodes."""

from __future__ import annotations

from datetime import datetime, timedelta

from tenure.testing.simulation.loop import Process
from tenure.testing.simulation.node import NodeClock
from tenure.testing.world.loop import WorldLoop


class WorldClock(NodeClock):
    """Right for everybody. The wall clock may leap; the boot clock, by which leases are timed and
    services wait, does not count that."""

    def __init__(self, loop: WorldLoop, start: datetime) -> None:
        super().__init__(loop, Process("world", origin=1_000.0), 0.0)
        self._start = start

    def now(self) -> datetime:
        return self._start + timedelta(microseconds=round(self._loop.now * 1e6))

    def leap(self, time: timedelta) -> None:
        """Let so much time pass for schedules and runs, and none for leases and heartbeats."""
        self._start += time
