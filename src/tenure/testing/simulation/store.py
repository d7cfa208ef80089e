"""The store of a simulated cluster: its clock, and a record of all that changes in it.

What it is kept in is a *medium*: the memory of this process, or a SQLite file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Protocol

from tenure.backends.base import Backend
from tenure.testing.simulation.history import EPOCH, STORE, Call, History
from tenure.testing.simulation.loop import Process, SimulationLoop

_TABLE_OPS = frozenset(
    {
        "fire",
        "change",
        "run_now",
        "backfill",
        "enqueue",
        "remove",
        "claim",
        "recover",
        "prune",
        "cancel",
        "retry",
        "append",
        "sequence",
        "report",
    }
)
_TRUST_OPS = frozenset({"acquire", "release", "take", "fire", "claim", "recover"})

Row = tuple[str, str, Any]
"""Its kind (of the history), what became of it, and the row itself."""


class StoreClock:
    """The store's two clocks. The wall clock can be set; leases run on the other."""

    def __init__(self, loop: SimulationLoop) -> None:
        self._loop = loop
        self._read: tuple[float, datetime] = (0.0, EPOCH)
        self.offset = 0.0

    def now(self) -> datetime:
        seconds = self._loop.now + self.offset
        if self._read[0] != seconds:  # it is read several times in each operation
            self._read = seconds, EPOCH + timedelta(seconds=seconds)
        return self._read[1]

    def monotonic(self) -> float:
        return self._loop.now

    async def sleep(self, seconds: float) -> None:
        if seconds > 0:  # a store has no others to whom it could give a turn
            await asyncio.sleep(seconds)  # noqa: TID251 - on this loop it is virtual

    async def wait(self, event: asyncio.Event, seconds: float | None) -> bool:
        raise NotImplementedError("a store does not wait")

    def block(self, seconds: float) -> None:
        raise NotImplementedError("a store does not block")


class Medium(Protocol):
    """What the store of a history is kept in."""

    name: str
    watch: Callable[[int], None] | None
    """Called before each statement of a transaction, with its number; where there are statements.
    What it raises rolls the transaction back."""

    def of(self, process: Process) -> Backend:
        """The store as this process has it."""
        ...

    def changes(self, op: str) -> Iterable[Row]:
        """What this operation, which was just executed, has changed: occurrences, then runs, then
        events."""
        ...

    def state(self) -> dict[str, list[Any]]:
        """All schedules and runs."""
        ...

    def hint(self, holders: set[str], *, proof: bool) -> bool:
        """Let it be rumoured, or proven, that these holders are dead; False if that cannot be."""
        ...

    def unhint(self) -> None:
        """All rumours have ended."""
        ...

    def forget_leases(self) -> bool:
        """As a Redis that was restarted empty; False if leases are kept with all the rest."""
        ...

    def close(self) -> None: ...


BuildMedium = Callable[[StoreClock, bool], Medium]
"""Called with the store's clock, and whether deaths can be proven."""


class Crashed(BaseException):
    """The process that executed this died in the middle of it."""


class SimulatedStore:
    """Records what every executed operation changed."""

    def __init__(
        self, loop: SimulationLoop, history: History, clock: StoreClock, medium: Medium
    ) -> None:
        self._loop = loop
        self._history = history
        self.clock = clock
        self.medium = medium
        self.observe: Callable[[], None] = lambda: None
        """Called at every operation that matters for who trusts which lease."""

    def executed(self, source: str, call: Call, fate: str) -> None:
        """Write down an operation and all rows that it changed."""
        at, history = self._loop.now, self._history
        what = f"{call.op} ({fate.replace('_', ' ')})" if fate else call.op
        history.add(at, source, STORE, what, call)
        if call.op in _TABLE_OPS:
            for kind, became, row in self.medium.changes(call.op):
                history.add(at, source, kind, became, row)
        if call.op in _TRUST_OPS:
            self.observe()
