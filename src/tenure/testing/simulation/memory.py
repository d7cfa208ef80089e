"""A store in this process's memory, with hints of death that can be wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from tenure.backends.base import Backend
from tenure.backends.memory import MemoryBackend
from tenure.backends.memory.leases import MemoryLeases
from tenure.model import (
    Attempt,
    Grant,
    Holder,
    LeaseRecord,
    LoggedEvent,
    Occurrence,
    RunRecord,
    RunState,
)
from tenure.node.presence import PRESENCE
from tenure.process.clock import Clock
from tenure.testing.simulation.history import ATTEMPT, EMITTED, GONE, OCCURRENCE, PRUNED, RUN
from tenure.testing.simulation.loop import Process
from tenure.testing.simulation.store import Row, StoreClock

BuildBackend = Callable[[Clock], MemoryBackend]


class HintedLeases(MemoryLeases):
    """Leases with hints. A rumour of death ends fenced leases only; a proof ends all."""

    def __init__(self, clock: Clock, wakeups: Any) -> None:
        super().__init__(clock, wakeups)
        self.rumoured: set[str] = set()
        self.dead: set[str] = set()
        self._anew = float("-inf")

    async def acquire(
        self, name: str, holder: Holder, ttl: float, *, fenced: bool = False, **options: Any
    ) -> Grant | LeaseRecord:
        exempt = fenced or name.startswith(PRESENCE)
        if not exempt and self._clock.monotonic() < self._anew + ttl:
            return _anew(name, ttl)
        return await super().acquire(name, holder, ttl, fenced=fenced, **options)

    def begin_anew(self) -> None:
        """All is forgotten. Locks are granted again when one ttl has passed, as in Redis."""
        self._leases.clear()
        self._history.clear()
        self._anew = self._clock.monotonic()

    def _live(self, lease: Any) -> bool:
        if not super()._live(lease):
            return False
        holder = lease.holder.id
        return holder not in self.dead and not (lease.fenced and holder in self.rumoured)

    async def suspect(self, record: Any, wait: float = 0.0) -> bool:
        return record.holder in self.dead or (record.fenced and record.holder in self.rumoured)


def _anew(name: str, ttl: float) -> LeaseRecord:
    nobody = "nobody knows: the store began anew"
    return LeaseRecord(name, 0, nobody, None, None, ttl, False, 0, None, None, None, live=True)


def memory_backend(clock: Clock) -> MemoryBackend:
    """The memory backend, with hints."""
    backend = MemoryBackend(clock)
    backend.leases = HintedLeases(clock, backend.wakeups)
    return backend


class InMemory:
    """One backend, which all processes share."""

    name = "memory"
    watch: Callable[[int], None] | None = None

    def __init__(
        self, clock: StoreClock, proofs: bool, build: BuildBackend = memory_backend
    ) -> None:
        self._proofs = proofs
        self._backend = build(clock)
        self._tables = self._backend.tables
        self._runs: dict[int, RunRecord] = {}
        self._recorded: dict[object, Occurrence] = {}
        self._events: dict[str, LoggedEvent] = {}
        self._attempts: dict[tuple[int, int], Attempt] = {}

    def of(self, process: Process) -> Backend:
        return self._backend

    def changes(self, op: str) -> Iterator[Row]:
        occurrences, runs = self._tables.occurrences, self._tables.runs
        if op == "prune":
            yield from self._pruned()
        for slot in islice(occurrences, len(self._recorded), None):
            row = self._recorded[slot] = occurrences[slot]
            yield OCCURRENCE, row.state, row
        # Rows are replaced when they change, never altered: identity tells.
        changed = [run for run in runs.values() if self._runs.get(run.id) is not run]
        # Results are recorded before runs are claimed, and may free their lock keys.
        changed.sort(key=lambda run: run.state is RunState.CLAIMED)
        for run in changed:
            self._runs[run.id] = run
            yield RUN, run.state, run
        events = self._tables.events
        for event in [e for e in events.values() if self._events.get(e.id) is not e]:
            self._events[event.id] = event
            yield EMITTED, "placed" if event.position else "stored", event
        yield from self._attempted()

    def _attempted(self) -> Iterator[Row]:
        present = {
            (a.run, a.claim): a for of in self._tables.attempts.values() for a in of.values()
        }
        for slot in [slot for slot in self._attempts if slot not in present]:
            yield ATTEMPT, GONE, self._attempts.pop(slot)
        for slot, attempt in present.items():
            if self._attempts.get(slot) is not attempt:
                self._attempts[slot] = attempt
                yield ATTEMPT, attempt.outcome or "running", attempt

    def _pruned(self) -> Iterator[Row]:
        for run_id in [run_id for run_id in self._runs if run_id not in self._tables.runs]:
            yield PRUNED, "run", self._runs.pop(run_id)
        for slot in [s for s in self._recorded if s not in self._tables.occurrences]:
            yield PRUNED, "occurrence", self._recorded.pop(slot)

    def state(self) -> dict[str, list[Any]]:
        return {
            "schedules": list(self._tables.schedules.values()),
            "runs": list(self._tables.runs.values()),
        }

    def hint(self, holders: set[str], *, proof: bool) -> bool:
        leases = self._backend.leases
        if not isinstance(leases, HintedLeases) or (proof and not self._proofs):
            return False
        (leases.dead if proof else leases.rumoured).update(holders)
        return True

    def unhint(self) -> None:
        if isinstance(self._backend.leases, HintedLeases):
            self._backend.leases.rumoured.clear()

    def forget_leases(self) -> bool:
        if isinstance(self._backend.leases, HintedLeases):
            self._backend.leases.begin_anew()
        return isinstance(self._backend.leases, HintedLeases)

    def close(self) -> None:
        pass
