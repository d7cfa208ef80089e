"""The tables that schedules and runs share."""

from __future__ import annotations

from datetime import datetime, timedelta

from tenure.backends.memory.wakeups import MemoryWakeups
from tenure.clock import Clock
from tenure.errors import Fenced
from tenure.model import (
    OVERLAP,
    Change,
    Fence,
    Firing,
    Kind,
    Occurrence,
    OccurrenceState,
    Overlap,
    RunRecord,
    RunState,
    Schedule,
)

_INSTANT = timedelta(microseconds=1)
_OPEN = (RunState.WAITING, RunState.CLAIMED)


class MemoryTables:
    """What schedules and runs share."""

    def __init__(self, clock: Clock, wakeups: MemoryWakeups) -> None:
        self.clock = clock
        self.wakeups = wakeups
        self.fences: dict[str, Fence] = {}
        self.schedules: dict[int, Schedule] = {}
        self.occurrences: dict[tuple[int, Kind, str], Occurrence] = {}
        self.runs: dict[int, RunRecord] = {}
        self.put_back: dict[int, tuple[int, str]] = {}
        """Of each run: the claim, and whose it was, that last ended with the run waiting again."""
        self.begins: dict[int, datetime] = {}
        """Of schedules that were put off before they were planned: when they were first due."""
        self.pruned_to: datetime | None = None
        """Whatever was pruned had ended by then."""
        self.last_uid = 0
        self.last_run = 0

    def check(self, fence: Fence) -> None:
        if self.fences.get(fence.scope) != fence:
            raise Fenced(f"term {fence.term} of {fence.holder} is not in office")

    def named(self, name: str) -> Schedule | None:
        return next((s for s in self.schedules.values() if s.name == name), None)

    def open_run(self, lock: str | None) -> bool:
        return lock is not None and any(
            r.lock == lock and r.state in _OPEN for r in self.runs.values()
        )

    def skips(self, schedule: Schedule) -> bool:
        """Would an occurrence that comes now be skipped?"""
        return schedule.spec.overlap is Overlap.SKIP and self.open_run(schedule.spec.lock)

    def was_fired(self, uid: int, nominal: datetime) -> bool:
        """When it was due, or by a backfill."""
        planned = self._planned(uid, nominal)
        if planned is not None and planned.state is OccurrenceState.FIRED:
            return True
        return (uid, Kind.BACKFILL, nominal.isoformat()) in self.occurrences

    def record(self, occurrence: Occurrence, key: str | None = None) -> bool:
        """Insert under the unique key; what exists already stays as it is."""
        slot = (occurrence.uid, occurrence.kind, key or occurrence.nominal.isoformat())
        if slot in self.occurrences:
            return False
        self.occurrences[slot] = occurrence
        return True

    def occur(
        self,
        schedule: Schedule,
        kind: Kind,
        nominal: datetime,
        due: datetime,
        term: int,
        key: str | None = None,
        *,
        skips: bool,
    ) -> Occurrence:
        """Fire or skip one occurrence."""
        now, spec = self.clock.now(), schedule.spec
        run_id = None
        if not skips:
            self.last_run += 1
            run_id = self.last_run
            self.runs[run_id] = RunRecord(
                id=run_id,
                schedule=spec.name,
                uid=schedule.uid,
                kind=kind,
                nominal=nominal,
                task=spec.task,
                kwargs=spec.kwargs,
                state=RunState.WAITING,
                due=due,
                attempt=0,
                crashes=0,
                failures=0,
                lock=None if spec.overlap is Overlap.ALLOW else spec.lock,
                priority=spec.priority,
                timeout=spec.timeout,
                retries=spec.retries,
                on_crash=spec.on_crash,
                term=term,
                node=None,
                created_at=now,
                claimed_at=None,
                finished_at=None,
                error=None,
            )
        occurrence = Occurrence(
            schedule=spec.name,
            uid=schedule.uid,
            kind=kind,
            nominal=nominal,
            last=nominal,
            state=OccurrenceState.SKIPPED if skips else OccurrenceState.FIRED,
            reason=OVERLAP if skips else None,
            recorded_at=now,
            term=term,
            run_id=run_id,
        )
        self.record(occurrence, key)
        return occurrence

    def miss(self, schedule: Schedule, change: Change | Firing, term: int) -> int:
        """Record the missed stretch; of what is on record already only what it lacks."""
        missed = change.missed
        if missed is None:
            return 0
        first, reason = missed.first, missed.reason
        known = self._planned(schedule.uid, first)
        if known is not None and known.state is not OccurrenceState.MISSED:
            first += _INSTANT
            known = self._planned(schedule.uid, first)
        if missed.last < (first if known is None else known.last + _INSTANT):
            return 0
        if known is not None and known.reason:
            reason = known.reason if reason in known.reason else f"{known.reason}; {reason}"
        stretch = Occurrence(
            schedule=schedule.name,
            uid=schedule.uid,
            kind=Kind.PLANNED,
            nominal=first,
            last=missed.last,
            state=OccurrenceState.MISSED,
            reason=reason,
            recorded_at=self.clock.now(),
            term=term,
            run_id=None,
        )
        if known is not None:
            self.occurrences[schedule.uid, Kind.PLANNED, first.isoformat()] = stretch
        return int(known is not None or self.record(stretch))

    def _planned(self, uid: int, nominal: datetime) -> Occurrence | None:
        return self.occurrences.get((uid, Kind.PLANNED, nominal.isoformat()))
