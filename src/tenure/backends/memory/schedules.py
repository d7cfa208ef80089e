"""Schedules and firing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from tenure.backends.base import LONGEST_WAIT, RUNS, SCHEDULES
from tenure.backends.memory.office import MemoryOffice
from tenure.backends.memory.tables import MemoryTables
from tenure.backends.shared import rows
from tenure.backends.shared.conflicts import changed, is_renamed, taken
from tenure.backends.shared.history import check_covered
from tenure.backends.shared.schedule_turns import MOST_TENANTS, Turns, in_turn
from tenure.errors import NotFound
from tenure.model import (
    BACKLOG_COUNTED,
    ENDED,
    REMOVED,
    Backlog,
    Change,
    DueBatch,
    DueSchedule,
    Fault,
    Fence,
    Fired,
    Firing,
    Kind,
    Occurrence,
    RunState,
    Schedule,
)


class MemorySchedules:
    """Schedules and firing."""

    def __init__(self, tables: MemoryTables, office: MemoryOffice) -> None:
        self._tables = tables
        self._office = office
        self._turns = Turns()

    async def change(self, changes: Sequence[Change]) -> list[Schedule]:
        t = self._tables
        named = {schedule.name: schedule for schedule in t.schedules.values()}
        before: set[str] = set()  # in this call
        for change in changes:
            name, old = change.spec.name, change.replaces
            if old is not None and not _unchanged(t.schedules.get(old.uid), old):
                raise changed(old.name)
            if (old is None or is_renamed(change)) and (name in named or name in before):
                raise taken(name)
            if old is not None and old.name in before:
                raise changed(old.name)
            before |= {name} if old is None else {name, old.name}
        now, stored = t.clock.now(), []
        for change in changes:
            if change.replaces is None:
                t.last_uid += 1
            uid = t.last_uid if change.replaces is None else change.replaces.uid
            schedule = t.schedules[uid] = rows.stored(change, uid, now)
            t.miss(schedule, change, 0)
            if is_renamed(change):
                t.renamed[uid] = schedule.name
            stored.append(schedule)
        t.wakeups.send(SCHEDULES)
        return stored

    async def remove(self, name: str, version: int | None = None) -> bool:
        schedule = self._tables.named(name)
        if schedule is None or version not in (None, schedule.version):
            return False
        del self._tables.schedules[schedule.uid]
        for run in self._tables.runs.values():
            if run.uid == schedule.uid and run.state is RunState.WAITING:
                self._tables.runs[run.id] = replace(
                    run,
                    state=RunState.CANCELLED,
                    finished_at=self._tables.clock.now(),
                    error=REMOVED,
                )
        self._tables.wakeups.send(SCHEDULES)
        return True

    async def find(
        self,
        names: Sequence[str] | None = None,
        *,
        tenant: str | None = None,
        limit: int = 1_000,
        ended: bool = False,
        after: str | None = None,
    ) -> dict[str, Schedule]:
        found = {
            s.name: s
            for s in self._tables.schedules.values()
            if (s.name in names if names is not None else ended or s.reason != ENDED)
            and tenant in (None, s.spec.tenant)
            and (after is None or names is not None or s.name > after)
        }
        return dict(sorted(found.items())[: limit if names is None else None])

    async def due(self, limit: int, ahead: float = 0.0) -> DueBatch:
        now = self._tables.clock.now()
        until = now + timedelta(seconds=ahead)
        planned = sorted(
            (
                (s.next_due, s.uid)
                for s in self._tables.schedules.values()
                if s.active and s.next_due
            ),
        )
        due = [self._tables.schedules[uid] for at, uid in planned if at <= until]
        later = planned[len(due)][0] if len(planned) > len(due) else None
        batch = DueBatch(now, [self._due(schedule) for schedule in due], later)
        if len(due) <= limit:
            return batch
        of_tenants: dict[str | None, list[DueSchedule]] = {}
        for schedule, found in zip(due, batch.schedules, strict=True):
            of_tenants.setdefault(schedule.spec.tenant, []).append(found)
        tenants = sorted(tenant for tenant in of_tenants if tenant is not None)
        asked = [(tenant, True) for tenant in tenants if tenant > self._turns.after]
        chosen, share = self._turns.share(asked[:MOST_TENANTS], limit)
        turns = (*chosen, None) if self._turns.begins else chosen
        groups = [of_tenants[tenant][:share] for tenant in turns if tenant in of_tenants]
        return in_turn(batch, groups, limit)

    async def fire(
        self,
        fence: Fence,
        firings: Sequence[Firing],
        faults: Sequence[Fault] = (),
        at: datetime | None = None,
        traceparent: str | None = None,
    ) -> Fired:
        t = self._tables
        if at is not None and (left := (at - t.clock.now()).total_seconds()) > 0:
            await t.clock.sleep(min(left, LONGEST_WAIT))
        self._office.check(fence)
        fired, missed, stale, skipped = 0, 0, 0, []
        for firing in firings:
            schedule = t.schedules.get(firing.uid)
            if (
                schedule is None
                or not schedule.active
                or schedule.next_due is None
                or schedule.next_due > t.clock.now()
                or (schedule.version, schedule.next_nominal) != (firing.version, firing.expected)
                or schedule.spec.target != firing.target
            ):
                stale += 1
                continue
            missed += t.miss(schedule, firing, fence.term)
            skips = t.skips(schedule)  # once for all: occurrences of one firing do not skip others
            for nominal, due in firing.occurrences:
                if (firing.uid, Kind.PLANNED, nominal.isoformat()) in t.occurrences:
                    continue
                t.occur(
                    schedule,
                    Kind.PLANNED,
                    nominal,
                    due,
                    fence.term,
                    skips=skips,
                    traceparent=traceparent,
                )
                if skips:
                    skipped.append(schedule.name)
                else:
                    fired += 1
            spec = schedule.spec
            t.begins.pop(firing.uid, None)
            t.schedules[firing.uid] = replace(
                schedule,
                spec=replace(spec, trigger=firing.trigger or spec.trigger),
                next_nominal=firing.next_nominal,
                next_due=firing.next_due,
                reason=None,
            )
            if firing.put_away:
                t.put_away([t.schedules[firing.uid]])
        for fault in faults:
            self._set_aside(fault)
        if fired:
            t.wakeups.send(RUNS)
        return Fired(fired, tuple(skipped), missed, stale)

    def _set_aside(self, fault: Fault) -> None:
        t = self._tables
        schedule = t.schedules.get(fault.uid)
        if schedule is None or schedule.version != fault.version:
            return
        if fault.until is None:
            t.schedules[fault.uid] = replace(
                schedule, active=False, reason=fault.reason, version=schedule.version + 1
            )
        elif fault.expected == schedule.next_nominal:
            if schedule.next_nominal is None and schedule.next_due is not None:
                t.begins.setdefault(schedule.uid, schedule.next_due)
            t.schedules[fault.uid] = replace(schedule, next_due=fault.until, reason=fault.reason)

    async def run_now(self, name: str, key: str) -> tuple[int | None, bool]:
        t = self._tables
        schedule = t.named(name)
        if schedule is None:
            raise NotFound(f"no schedule named {name!r}.")
        known = t.occurrences.get((schedule.uid, Kind.MANUAL, key))
        if known is not None:
            return known.run_id, False
        now = t.clock.now()
        done = t.occur(schedule, Kind.MANUAL, now, now, 0, key, skips=t.skips(schedule))
        t.wakeups.send(RUNS)
        return done.run_id, True

    async def backfill(
        self,
        name: str,
        nominals: Sequence[datetime],
        *,
        dry_run: bool = False,
        beyond_history: bool = False,
    ) -> list[datetime]:
        t = self._tables
        schedule = t.named(name)
        if schedule is None:
            raise NotFound(f"no schedule named {name!r}.")
        chosen = [n for n in sorted(set(nominals)) if not t.was_fired(schedule.uid, n)]
        if not beyond_history:
            check_covered(name, schedule.created_at, chosen, t.pruned_to)
        if chosen and not dry_run:
            for nominal in chosen:
                t.occur(schedule, Kind.BACKFILL, nominal, t.clock.now(), 0, skips=False)
            t.wakeups.send(RUNS)
        return chosen

    async def occurrences(
        self, name: str, limit: int = 50, *, until: datetime | None = None
    ) -> list[Occurrence]:
        named = map(self._tables.with_name, self._tables.occurrences.values())
        found = [o for o in named if o.schedule == name and (until is None or o.nominal <= until)]
        return sorted(found, key=lambda o: o.nominal, reverse=True)[:limit]

    async def recent(self, uids: Sequence[int], limit: int = 10) -> dict[int, list[str]]:
        t, found = self._tables, dict[int, list[str]]()
        planned = [o for o in t.occurrences.values() if o.kind is Kind.PLANNED and o.uid in uids]
        for o in sorted(planned, key=lambda o: o.nominal, reverse=True):
            run = t.runs.get(o.run_id or 0)
            found.setdefault(o.uid, []).append(str(o.state if run is None else run.state))
        return {uid: states[:limit] for uid, states in found.items()}

    async def backlog(self, scope: str) -> Backlog:
        t = self._tables
        now = t.clock.now()
        planned = [s.next_due for s in t.schedules.values() if s.active and s.next_due]
        waiting = [r.due for r in t.runs.values() if r.state is RunState.WAITING]
        claimed = [r for r in t.runs.values() if r.state is RunState.CLAIMED]
        held = [r.claimed_at for r in claimed if r.lock is not None and r.claimed_at is not None]
        return Backlog(
            now=now,
            due=min(sum(at <= now for at in planned), BACKLOG_COUNTED),
            next_due=min(planned, default=None),
            waiting=min(len(waiting), BACKLOG_COUNTED),
            claimed=min(len(claimed), BACKLOG_COUNTED),
            oldest_waiting=min(waiting, default=None),
            term=self._office.term(scope),
            oldest_lock=min(held, default=None),
        )

    def _due(self, schedule: Schedule) -> DueSchedule:
        assert schedule.next_due is not None
        return DueSchedule(
            uid=schedule.uid,
            name=schedule.name,
            version=schedule.version,
            trigger=schedule.spec.trigger,
            next_nominal=schedule.next_nominal,
            next_due=schedule.next_due,
            catch_up=schedule.spec.catch_up,
            overlap=schedule.spec.overlap,
            lock=schedule.spec.lock,
            catch_up_limit=schedule.spec.catch_up_limit,
            catch_up_grace=schedule.spec.catch_up_grace,
            begins=self._tables.begins.get(schedule.uid) if schedule.next_nominal is None else None,
            payload=len(schedule.spec.kwargs.encode()),
            tenant=schedule.spec.tenant,
            target=schedule.spec.target,
        )


def _unchanged(stored: Schedule | None, read: Schedule) -> bool:
    return stored is not None and (stored.uid, stored.version, stored.next_nominal) == (
        read.uid,
        read.version,
        read.next_nominal,
    )
