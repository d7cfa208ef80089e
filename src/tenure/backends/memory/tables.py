"""The tables that schedules, runs and events share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

from tenure.backends.base import UNSEQUENCED
from tenure.backends.memory.run_table import RunTable
from tenure.backends.memory.wakeups import MemoryWakeups
from tenure.model import (
    ENDED,
    OVERLAP,
    Attempt,
    AuditLine,
    Change,
    Firing,
    HeldLane,
    Kind,
    Lane,
    LoggedEvent,
    NewEvent,
    Occurrence,
    OccurrenceState,
    OnFailure,
    Overlap,
    Parked,
    RunRecord,
    RunState,
    Schedule,
    ScheduleSummary,
    TaskRule,
    occurrence_event,
)
from tenure.process.clock import Clock, to_micros

Record = TypeVar("Record", Occurrence, RunRecord)
_INSTANT = timedelta(microseconds=1)


@dataclass
class RelayRow:
    """A relay, and what it could not deliver."""

    moved_at: datetime
    cursor: int = 0
    location: str = ""
    topics: tuple[str, ...] = ()
    lanes: dict[Lane, tuple[HeldLane, datetime]] = field(default_factory=dict)
    """Those that are held, and since when they are as they are."""
    parked: dict[int, tuple[Parked, datetime]] = field(default_factory=dict)
    """Those that were passed over, and when."""
    replays: set[int] = field(default_factory=set)
    """The positions of those that are to be sent again."""
    trouble: str = ""
    ended: str | None = None
    revision: int = 1


class MemoryTables:
    """What schedules, runs and events share."""

    def __init__(self, clock: Clock, wakeups: MemoryWakeups) -> None:
        self.clock = clock
        self.wakeups = wakeups
        self.schedules: dict[int, Schedule] = {}
        self.renamed: dict[int, str] = {}
        """The present names of schedules that were renamed, also of those that were removed."""
        self.occurrences: dict[tuple[int, Kind, str], Occurrence] = {}
        self.runs = RunTable()
        self.enqueued: dict[tuple[str, str], int] = {}
        """Of runs that belong to no schedule, by task and key: their ids."""
        self.put_back: dict[int, tuple[int, str]] = {}
        """The last claim that put each run back, and its node."""
        self.attempts: dict[int, dict[int, Attempt]] = {}
        """Of each run, by claim."""
        self.begins: dict[int, datetime] = {}
        """When schedules that were put off before their first plan were first due."""
        self.events: dict[str, LoggedEvent] = {}
        self.last_position = 0
        self.groups: dict[tuple[str, str], tuple[int, datetime]] = {}
        """By topic and name: up to which position it has read, and when it last did."""
        self.relays: dict[str, RelayRow] = {}
        self.rules: dict[tuple[str, str], TaskRule] = {}
        """By app and task."""
        self.summaries: dict[int, ScheduleSummary] = {}
        """Of schedules, by uid."""
        self.audit: dict[int, AuditLine] = {}
        self.last_line = 0
        self.pruned_to: datetime | None = None
        """Every pruned run had ended by then."""
        self.last_uid = 0
        self.last_run = 0

    def named(self, name: str) -> Schedule | None:
        return next((s for s in self.schedules.values() if s.name == name), None)

    def with_name(self, record: Record) -> Record:
        """With the name that its schedule has now: it may have been renamed since."""
        name = self.renamed.get(record.uid or 0)
        return record if name is None else replace(record, schedule=name)

    def open_run(self, lock: str | None) -> bool:
        return lock is not None and lock in self.runs.of_lock

    def room(self, task: str) -> int | None:
        """How many more runs of the task may be claimed; None: any number."""
        rules = [rule.max_running for (_, name), rule in self.rules.items() if name == task]
        limits = [limit for limit in rules if limit is not None]
        if not limits:
            return None
        claimed = sum(run.task == task for run in self.runs.claimed.values())
        return max(0, min(limits) - claimed)

    def on_failure(self, task: str) -> OnFailure | None:
        of_task = {app: rule for (app, name), rule in self.rules.items() if name == task}
        wanted = (of_task[app].on_failure for app in sorted(of_task))
        return next((each for each in wanted if each is not None), None)

    def skips(self, schedule: Schedule) -> bool:
        """Would an occurrence be skipped now?"""
        spec = schedule.spec
        skips = spec.overlap is Overlap.SKIP and spec.event is None
        return skips and self.open_run(spec.lock)

    def was_fired(self, uid: int, nominal: datetime) -> bool:
        """Was this nominal time fired when it was due, or by a backfill?"""
        planned = self._planned(uid, nominal)
        if planned is not None and planned.state is OccurrenceState.FIRED:
            return True
        return (uid, Kind.BACKFILL, nominal.isoformat()) in self.occurrences

    def record(self, occurrence: Occurrence, key: str | None = None) -> bool:
        """Insert under the unique key; an existing occurrence stays as it is."""
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
        traceparent: str | None = None,
    ) -> Occurrence:
        """Fire or skip one occurrence."""
        now, spec = self.clock.now(), schedule.spec
        run_id = None
        if spec.event is not None:
            identity = occurrence_event(schedule.uid, kind, key or to_micros(nominal))
            self.log([NewEvent(identity, spec.event, spec.name, nominal, traceparent)])
        elif not skips:
            self.last_run += 1
            run_id = self.last_run
            self.runs[run_id] = RunRecord(
                id=run_id,
                schedule=spec.name,
                uid=schedule.uid,
                kind=kind,
                nominal=nominal,
                task=spec.task,
                arguments=spec.kwargs,
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
                tenant=spec.tenant,
                traceparent=traceparent,
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

    def log(self, events: Sequence[NewEvent]) -> int:
        """Store these, without positions; how many are new."""
        now = self.clock.now()
        new = {event.id: event for event in reversed(events) if event.id not in self.events}
        for event in reversed(new.values()):
            content = event.content
            self.events[event.id] = LoggedEvent(
                id=event.id,
                topic=content.topic,
                type=content.type,
                source="/tenure/default",
                subject=event.subject,
                time=event.time or now,
                data=content.data,
                key=content.key,
                headers=json.loads(content.headers),
                position=0,
                key_number=0,
                traceparent=event.traceparent,
                recorded_at=now,
            )
        if new:
            self.wakeups.send(UNSEQUENCED)
        return len(new)

    def miss(self, schedule: Schedule, change: Change | Firing, term: int) -> int:
        """Record the missed stretch, or the part of it that is not recorded yet."""
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

    def put_away_old(self, before: datetime, limit: int) -> None:
        """Schedules that ended before then, and of which nothing is on record."""
        recorded = {uid for uid, _, _ in self.occurrences}
        ended = [
            s
            for s in self.schedules.values()
            if s.active and s.next_due is None and s.reason is None and s.updated_at < before
            if s.uid not in recorded
        ]
        self.put_away(ended[:limit])

    def put_away(self, ended: Iterable[Schedule]) -> None:
        """As removed; what code declares is marked, and stays."""
        for schedule in ended:
            if schedule.spec.app is None:
                del self.schedules[schedule.uid]
            else:
                self.schedules[schedule.uid] = replace(schedule, reason=ENDED)

    def _planned(self, uid: int, nominal: datetime) -> Occurrence | None:
        return self.occurrences.get((uid, Kind.PLANNED, nominal.isoformat()))
