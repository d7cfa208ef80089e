"""Occurrences (G1): every nominal time is accounted for exactly once, and none early.

    accounted once   the rows of a schedule follow each other without a gap and without an overlap
    early            nothing is fired before the store's clock said that it is due, nor backfilled
                     before the plan has come to it
    removed          nothing more comes of a schedule that was removed
    manual once      the same key of `run_now` is the same run

The nominal times of `every` are enumerated here, from the stored JSON and by plain arithmetic;
those of `cron` by the trigger itself, whose arithmetic has tests of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tenure import triggers
from tenure.model import Kind, Occurrence, OccurrenceState, Schedule
from tenure.testing.simulation.checker.violation import Violation
from tenure.testing.simulation.history import (
    END,
    EPOCH,
    OCCURRENCE,
    PRUNED,
    STORE,
    Call,
    Event,
    History,
    show,
)

Found = Iterator[tuple[str, str]]


def check_occurrences(history: History) -> Iterator[Violation]:
    model = _Accounts()
    for place, event in history.of(STORE, OCCURRENCE, PRUNED, END):
        for invariant, text in model.see(event):
            yield Violation(invariant, text, place, history)


class _Nominal:
    """The nominal times of one definition."""

    def __init__(self, trigger: str, begin: datetime) -> None:
        """`begin`: from where it was planned, if it does not say so itself."""
        data = json.loads(trigger)
        self.anchor = datetime.fromisoformat(data["anchor"]) if "anchor" in data else begin
        self._trigger = None if data.get("seconds") else triggers.load(trigger)
        self._step = timedelta(seconds=data.get("seconds") or 0)
        self.first = self.anchor if data.get("from_start") else self.after(self.anchor)

    def after(self, moment: datetime) -> datetime:
        if self._trigger is not None:
            following = self._trigger.next(moment)
            return (
                following if following is not None else datetime.max.replace(tzinfo=moment.tzinfo)
            )
        return self.anchor + ((moment - self.anchor) // self._step + 1) * self._step

    def __contains__(self, moment: datetime) -> bool:
        return self.after(moment - timedelta(microseconds=1)) == moment


@dataclass(slots=True)
class _Account:
    name: str
    trigger: str
    nominal: _Nominal
    expected: datetime
    """The first nominal time that no row has accounted for."""
    last: datetime | None = None
    """The last that one has."""


class _Accounts:
    def __init__(self) -> None:
        self._accounts: dict[int, _Account] = {}
        self._removed: set[int] = set()
        self._replanned: list[Schedule] = []
        self._planner = ""
        self._read: dict[str, list[datetime]] = {}
        """What the store's clock said when it was asked, by whom: plans begin there."""
        self._said: dict[tuple[str, int, datetime], datetime] = {}
        """What the store's clock said when it told a node that this plan of a schedule is due. A
        firing may rest on that, even if the clock was set back before it landed."""
        self._call: Call | None = None
        self._manual: dict[tuple[int, str], int | None] = {}
        self._clock = self._latest = EPOCH
        """What the store's clock says, and the latest that it said before it was set back."""

    def see(self, event: Event) -> Found:
        if event.kind == OCCURRENCE:
            yield from self._occurred(event.source, event.detail)
            return
        if event.kind == PRUNED:
            self._pruned(event.detail)
            return
        # Rows that close the account of an old definition come right after its change.
        yield from self._open_accounts()
        if event.kind == END:
            if event.what == "schedules":
                yield from self._end(event.detail["schedules"])
        else:
            if event.detail.clock < self._clock:
                self._latest = max(self._latest, self._clock)
            self._clock = event.detail.clock
            if event.detail.error is None:
                yield from self._store(event.source, event.detail)

    def _store(self, source: str, call: Call) -> Found:
        self._call = call
        if call.op == "due":
            for due in call.result.schedules:
                plan = source, due.uid, due.next_nominal
                self._said[plan] = max(self._said.get(plan, call.result.now), call.result.now)
        elif call.op in ("now", "declared"):
            now = call.result if call.op == "now" else call.result.now
            self._read.setdefault(source, []).append(now)
        elif call.op == "change":
            self._replanned, self._planner = call.result, source
        elif call.op == "remove" and call.result:
            self._removed |= {uid for uid, a in self._accounts.items() if a.name == call.args[0]}
        elif call.op == "run_now":
            name, key = call.args
            run_id, new = call.result
            slot = self._uid(name), key
            if slot in self._manual and (new or self._manual[slot] != run_id):
                yield "manual once", f"run_now({name}, {key}) made run {run_id} beside another"
            self._manual.setdefault(slot, run_id)

    def _uid(self, name: str) -> int:
        named = (uid for uid, account in self._accounts.items() if account.name == name)
        return next(uid for uid in named if uid not in self._removed)

    def _open_accounts(self) -> Found:
        replanned, self._replanned = self._replanned, []
        for schedule in replanned:
            account = self._accounts.get(schedule.uid)
            if account is not None and account.trigger == schedule.spec.trigger:
                account.name = schedule.name  # it may have been renamed
                continue
            nominal = _Nominal(schedule.spec.trigger, self._begin(schedule))
            if account is not None and account.expected <= nominal.anchor:
                text = (
                    f"{schedule.name} has a new trigger from {show(nominal.anchor)}, but"
                    f" {show(account.expected)} of the old one was never accounted for"
                )
                yield "accounted once", text
            last = account.last if account else None
            yield from self._well_begun(schedule, nominal, last)
            begin = schedule.next_nominal or nominal.first
            self._accounts[schedule.uid] = _Account(
                schedule.name, schedule.spec.trigger, nominal, begin, last
            )

    def _begin(self, schedule: Schedule) -> datetime:
        """From which reading of the clock on a new definition was planned."""
        read = self._read.get(self._planner, [EPOCH])[-8:]
        rule = triggers.load(schedule.spec.trigger)
        return min(
            (now for now in read if rule.next(now) == schedule.next_nominal), default=min(read)
        )

    def _well_begun(self, schedule: Schedule, nominal: _Nominal, last: datetime | None) -> Found:
        """A definition begins with its first nominal time. Only after the store's clock was set
        back it may begin later, but not later than where the clock had been."""
        begin = schedule.next_nominal
        latest = max(nominal.first, nominal.after(self._latest))
        if begin is None or begin not in nominal or not nominal.first <= begin <= latest:
            yield "accounted once", f"{show(schedule)} begins wrongly, not at {show(nominal.first)}"
        elif last is not None and begin <= last:
            yield "accounted once", f"{show(schedule)} begins before {show(last)}, which was fired"

    def _occurred(self, source: str, row: Occurrence) -> Found:
        if row.uid in self._removed:
            yield "removed", f"{row.schedule} at {show(row.nominal)} ({row.kind}) came after it"
        elif row.kind is Kind.PLANNED:
            yield from self._row(source, row)
        elif row.kind is Kind.BACKFILL and row.nominal >= self._accounts[row.uid].expected:
            yield "early", f"{row.schedule} at {show(row.nominal)} was backfilled before its time"

    def _pruned(self, row: Any) -> None:
        """Its key is free again: what the store has forgotten it cannot know."""
        if isinstance(row, Occurrence) and row.kind is Kind.MANUAL:
            for uid, key in list(self._manual):
                if uid == row.uid and self._manual[uid, key] == row.run_id:
                    del self._manual[uid, key]

    def _row(self, source: str, row: Occurrence) -> Found:
        account = self._accounts[row.uid]
        what = f"{row.schedule} at {show(row.nominal)} ({row.state})"
        if row.nominal not in account.nominal or row.last not in account.nominal:
            yield "accounted once", f"{what} is no nominal time of its schedule"
        if row.nominal < account.expected:
            yield "accounted once", f"{what} was accounted for before"
        elif row.nominal > account.expected:
            yield "accounted once", f"{what}: {show(account.expected)} was left out before it"
        if row.last < row.nominal or (
            row.state is not OccurrenceState.MISSED and row.last != row.nominal
        ):
            yield "accounted once", f"{what} ends at {show(row.last)}"
        account.expected = max(account.expected, account.nominal.after(row.last))
        account.last = max(account.last or row.last, row.last)
        if row.state is not OccurrenceState.MISSED and not row.reason:
            yield from self._not_early(source, row, what)

    def _not_early(self, source: str, row: Occurrence, what: str) -> Found:
        assert self._call is not None
        said = self._call.clock
        if self._call.op == "fire":
            for firing in self._call.args[1]:
                if firing.uid == row.uid:
                    said = max(said, self._said.get((source, row.uid, firing.expected), said))
        if row.nominal > said:
            yield "early", f"{what} was fired when the store's clock said {show(said)}"

    def _end(self, schedules: Any) -> Found:
        for schedule in schedules:
            account = self._accounts[schedule.uid]
            if schedule.next_nominal != account.expected:
                text = (
                    f"{schedule.name} goes on at {show(schedule.next_nominal)}, but the first that"
                    f" is not accounted for is {show(account.expected)}"
                )
                yield "accounted once", text
