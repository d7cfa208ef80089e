"""The store of a simulated cluster: one memory backend, its clock, and a record of every write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from tenure.backends.memory import MemoryBackend
from tenure.backends.memory.leases import MemoryLeases
from tenure.clock import Clock
from tenure.model import RunRecord, RunState
from tenure.testing.simulation.history import EPOCH, OCCURRENCE, RUN, STORE, Call, History
from tenure.testing.simulation.loop import SimulationLoop

_TABLE_OPS = frozenset(
    {"fire", "change", "run_now", "backfill", "remove", "claim", "finish", "recover"}
)
_TRUST_OPS = frozenset({"acquire", "release", "take_office", "fire", "claim", "recover"})


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
        await asyncio.sleep(seconds)  # noqa: TID251 - on this loop it is virtual

    async def wait(self, event: asyncio.Event, seconds: float | None) -> bool:
        raise NotImplementedError("a store does not wait")

    def block(self, seconds: float) -> None:
        raise NotImplementedError("a store does not block")


class HintedLeases(MemoryLeases):
    """Leases with hints. A rumour of death ends fenced leases only; a proof ends all."""

    def __init__(self, clock: Clock, wakeups: Any) -> None:
        super().__init__(clock, wakeups)
        self.rumoured: set[str] = set()
        self.dead: set[str] = set()

    def _live(self, lease: Any) -> bool:
        if not super()._live(lease):
            return False
        holder = lease.holder.id
        return holder not in self.dead and not (lease.fenced and holder in self.rumoured)

    async def suspect(self, record: Any) -> bool:
        return record.holder in self.dead or (record.fenced and record.holder in self.rumoured)


def memory_backend(clock: Clock) -> MemoryBackend:
    """The backend that simulations use unless they are given another."""
    backend = MemoryBackend(clock)
    backend.leases = HintedLeases(clock, backend.wakeups)
    return backend


class SimulatedStore:
    """Records what every executed operation changed."""

    def __init__(
        self,
        loop: SimulationLoop,
        history: History,
        build: Callable[[Clock], MemoryBackend] = memory_backend,
    ) -> None:
        self.clock = StoreClock(loop)
        self._loop = loop
        self._history = history
        self._backend = build(self.clock)
        self._tables = self._backend.tables
        self._runs: dict[int, RunRecord] = {}
        self._occurrences = 0
        self.observe: Callable[[], None] = lambda: None
        """Called at every operation that matters for who trusts which lease."""
        self.leases = self._backend.leases
        self.schedules = self._backend.schedules
        self.releases = self._backend.releases
        self.runs = self._backend.runs
        self.wakeups = self._backend.wakeups

    def executed(self, source: str, call: Call, fate: str) -> None:
        """Write down an operation and all rows that it changed."""
        at, history = self._loop.now, self._history
        what = f"{call.op} ({fate.replace('_', ' ')})" if fate else call.op
        history.add(at, source, STORE, what, call)
        if call.op in _TABLE_OPS:
            self._record_rows(at, source)
        if call.op in _TRUST_OPS:
            self.observe()

    def hint(self, holders: set[str], *, proof: bool) -> None:
        """Let it be rumoured, or proven, that these holders are dead."""
        leases = self.leases
        if isinstance(leases, HintedLeases):
            (leases.dead if proof else leases.rumoured).update(holders)

    def unhint(self) -> None:
        if isinstance(self.leases, HintedLeases):
            self.leases.rumoured.clear()

    def final_state(self) -> dict[str, Any]:
        return {
            "schedules": list(self._tables.schedules.values()),
            "runs": list(self._tables.runs.values()),
        }

    def _record_rows(self, at: float, source: str) -> None:
        occurrences = self._tables.occurrences
        if len(occurrences) != self._occurrences:
            for row in islice(occurrences.values(), self._occurrences, None):
                self._history.add(at, source, OCCURRENCE, row.state, row)
            self._occurrences = len(occurrences)
        # Rows are replaced when they change, never altered: identity tells.
        changed = [run for run in self._tables.runs.values() if self._runs.get(run.id) is not run]
        # Results are recorded before runs are claimed, and may free their lock keys.
        changed.sort(key=lambda run: run.state is RunState.CLAIMED)
        for run in changed:
            self._runs[run.id] = run
            self._history.add(at, source, RUN, run.state, run)
