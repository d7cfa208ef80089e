"""What the demo has shown, judged from evidence.

Two witnesses are compared with the plan: the journal, which the tasks wrote themselves, and the
store's record. The plan is enumerated here, from the triggers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from math import ceil
from typing import Any

from tenure.cli.demo.journal import Execution
from tenure.cli.output import iso
from tenure.model import Kind, Occurrence, OccurrenceState, RunRecord
from tenure.triggers import Trigger

SLACK = 1.0
_INSTANT = timedelta(microseconds=1)
_Key = tuple[str, datetime]


@dataclass(frozen=True, slots=True)
class Takeover:
    """A leader lost, and the one who came after it."""

    how: str
    """killed, frozen or stopped"""
    node: str
    pid: int
    term: int
    at: datetime
    successor: str | None = None
    successor_pid: int | None = None
    successor_term: int | None = None
    fired_at: datetime | None = None

    @property
    def seconds(self) -> float | None:
        """From the deed to the first firing that a successor committed."""
        return None if self.fired_at is None else (self.fired_at - self.at).total_seconds()


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that was observed."""

    triggers: Mapping[str, Trigger]
    created: Mapping[str, datetime]
    ready: datetime
    """From when on all nodes were up."""
    until: datetime
    """What was due up to here had the time to come to its end."""
    occurrences: Sequence[Occurrence]
    runs: Sequence[RunRecord]
    executions: Sequence[Execution]
    takeovers: Sequence[Takeover]
    ttl: float


@dataclass(frozen=True, slots=True)
class Lateness:
    """From due to started, in seconds."""

    count: int
    p50: float
    p99: float
    most: float


@dataclass(frozen=True, slots=True)
class Promise:
    text: str
    kept: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The figures, and which promises were kept."""

    planned: int
    fired: int
    missed: tuple[str, ...]
    skipped: tuple[str, ...]
    unaccounted: tuple[str, ...]
    duplicates: tuple[str, ...]
    early: tuple[str, ...]
    reruns: int
    terms: tuple[int, ...]
    calm: Lateness
    """Of occurrences that had a leader from due to started."""
    leaderless: Lateness
    """Of those that had to wait for one."""
    takeovers: tuple[Takeover, ...]
    bound: float
    """Within which a successor must have fired."""
    promises: tuple[Promise, ...]

    @property
    def kept(self) -> bool:
        return all(promise.kept for promise in self.promises)

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say about single occurrences, the worst first."""
        return (*self.duplicates, *self.unaccounted, *self.early, *self.missed, *self.skipped)

    def to_json(self) -> dict[str, Any]:
        values = asdict(self)
        for name in ("missed", "skipped", "unaccounted", "duplicates", "early"):
            values[name] = len(values[name])
        values["notes"] = list(self.notes)
        values["lateness"] = {"calm": values.pop("calm"), "leaderless": values.pop("leaderless")}
        for takeover, source in zip(values["takeovers"], self.takeovers, strict=True):
            takeover["at"], takeover["fired_at"] = iso(source.at), iso(source.fired_at)
            takeover["seconds"] = source.seconds
        return {"ok": self.kept, **values}


def judge(evidence: Evidence) -> Verdict:
    plan = {(name, at) for name in evidence.triggers for at in _nominals(evidence, name)}
    planned = [o for o in evidence.occurrences if o.kind is Kind.PLANNED]
    fired = [o for o in planned if o.state is OccurrenceState.FIRED]
    duplicates, reruns = _duplicates(evidence)
    unaccounted = _unaccounted(evidence, plan, planned, fired)
    early = _early(evidence, planned)
    calm, leaderless = _lateness(evidence)
    ordered = sorted((run for run in evidence.runs if run.term), key=lambda run: run.id)
    terms = [run.term for run in ordered]
    verdict = Verdict(
        planned=len(plan),
        # What was fired after the end of the plan, before the nodes were gone, is not counted.
        fired=sum((o.schedule, o.nominal) in plan for o in fired),
        missed=_not_run(planned, OccurrenceState.MISSED, plan),
        skipped=_not_run(planned, OccurrenceState.SKIPPED, plan),
        unaccounted=tuple(f"{_shown(key)}: not accounted for" for key in unaccounted),
        duplicates=tuple(f"{_shown(key)}: fired or executed twice" for key in duplicates),
        early=tuple(f"{_shown(key)}: before its time, or not in the plan" for key in early),
        reruns=reruns,
        terms=tuple(sorted(set(terms))),
        calm=calm,
        leaderless=leaderless,
        takeovers=tuple(evidence.takeovers),
        bound=evidence.ttl + SLACK,
        promises=(),
    )
    return _with_promises(verdict, in_order=terms == sorted(terms))


def _with_promises(verdict: Verdict, *, in_order: bool) -> Verdict:
    v = verdict
    again = f", {v.reruns} run again after its node was lost" if v.reruns else ""
    promises = [
        Promise(
            "nothing fired twice",
            not v.duplicates,
            f"{v.fired} fired, {len(v.duplicates)} duplicates{again}",
        ),
        Promise(
            "nothing dropped",
            not v.unaccounted and v.fired > 0,
            f"{v.planned} planned, {len(v.unaccounted)} unaccounted,"
            f" {len(v.missed)} missed, {len(v.skipped)} skipped",
        ),
        Promise("nothing early", not v.early, f"{len(v.early)} early"),
        Promise(
            "one leader acts at a time",
            in_order,
            f"terms {', '.join(map(str, v.terms)) or 'none'};"
            f" {'no' if in_order else 'a'} firing under an old one",
        ),
    ]
    if v.takeovers:
        times = [takeover.seconds for takeover in v.takeovers]
        known = [seconds for seconds in times if seconds is not None]
        promises.append(
            Promise(
                "a successor fires in time",
                len(known) == len(times) and max(known) <= v.bound,
                f"{len(known)} of {len(times)}"
                + (f", the slowest after {max(known):.2f} s" if known else "")
                + f"; bound {v.bound:g} s",
            )
        )
    return replace(v, promises=tuple(promises))


def _nominals(evidence: Evidence, name: str) -> Iterator[datetime]:
    """The plan of a schedule, from its creation to the end of the evidence."""
    recorded = [o.nominal for o in evidence.occurrences if o.schedule == name]
    begun = min([evidence.created[name], *(nominal - _INSTANT for nominal in recorded)])
    moment = evidence.triggers[name].next(begun)
    while moment is not None and moment <= evidence.until:
        yield moment
        moment = evidence.triggers[name].next(moment)


def _duplicates(evidence: Evidence) -> tuple[list[_Key], int]:
    """Occurrences that happened twice, and how many executions were repeated for good reason.

    A run may begin again if its node was lost: we did it, or the store has a crash on record. Two
    runs of one occurrence, or one attempt begun twice, have no excuse.
    """
    harmed = {takeover.pid for takeover in evidence.takeovers if takeover.how != "stopped"}
    crashes = {run.id: run.crashes for run in evidence.runs}
    runs: dict[_Key, set[int]] = defaultdict(set)
    for run in evidence.runs:
        if run.kind is Kind.PLANNED:
            runs[run.schedule, run.nominal].add(run.id)
    attempts: dict[_Key, list[Execution]] = defaultdict(list)
    for execution in evidence.executions:
        key = execution.schedule, execution.nominal
        runs[key].add(execution.run)
        attempts[key].append(execution)
    twice = {key for key, ids in runs.items() if len(ids) > 1}
    reruns = 0
    for key, executions in attempts.items():
        executions.sort(key=lambda e: (e.attempt, e.at))
        for before, after in pairwise(executions):
            excused = before.pid in harmed or crashes.get(after.run, 0) > 0
            if before.attempt == after.attempt or not excused:
                twice.add(key)
            else:
                reruns += 1
    return sorted(twice), reruns


def _unaccounted(
    evidence: Evidence, plan: set[_Key], planned: list[Occurrence], fired: list[Occurrence]
) -> list[_Key]:
    """Of the plan: without a record. Of the record: fired, and never executed."""
    stretches: dict[str, list[tuple[datetime, datetime]]] = defaultdict(list)
    for occurrence in planned:
        stretches[occurrence.schedule].append((occurrence.nominal, occurrence.last))
    executed = {(e.schedule, e.nominal) for e in evidence.executions}
    dropped = {
        (name, at)
        for name, at in plan
        if not any(first <= at <= last for first, last in stretches[name])
    }
    idle = {(o.schedule, o.nominal) for o in fired if o.nominal <= evidence.until} - executed
    return sorted(dropped | idle)


def _early(evidence: Evidence, planned: list[Occurrence]) -> list[_Key]:
    found = {(o.schedule, o.nominal) for o in planned if o.recorded_at < o.nominal}
    found |= {(e.schedule, e.nominal) for e in evidence.executions if e.at < e.nominal}
    for occurrence in planned:
        trigger = evidence.triggers[occurrence.schedule]
        if trigger.latest(occurrence.nominal) != occurrence.nominal:
            found.add((occurrence.schedule, occurrence.nominal))
    return sorted(found)


def _lateness(evidence: Evidence) -> tuple[Lateness, Lateness]:
    calm: list[float] = []
    leaderless: list[float] = []
    gaps = [(t.at, t.fired_at or evidence.until) for t in evidence.takeovers]
    gaps.append((min(evidence.created.values(), default=evidence.ready), evidence.ready))
    for execution in evidence.executions:
        if execution.attempt == 1:
            orphan = any(execution.nominal <= end and begin <= execution.at for begin, end in gaps)
            (leaderless if orphan else calm).append(execution.late)
    return lateness(calm), lateness(leaderless)


def lateness(values: Iterable[float]) -> Lateness:
    ordered = sorted(values)
    if not ordered:
        return Lateness(0, 0.0, 0.0, 0.0)

    def percentile(share: float) -> float:
        return ordered[max(0, ceil(share * len(ordered)) - 1)]

    return Lateness(len(ordered), percentile(0.5), percentile(0.99), ordered[-1])


def _not_run(
    occurrences: list[Occurrence], state: OccurrenceState, plan: set[_Key]
) -> tuple[str, ...]:
    """What was not run, each with its reason. A missed stretch is one row for several of them."""
    return tuple(
        f"{_shown((name, at))}: {state} ({o.reason})"
        for o in occurrences
        if o.state is state
        for name, at in sorted(plan)
        if name == o.schedule and o.nominal <= at <= o.last
    )


def _shown(key: _Key) -> str:
    name, nominal = key
    return f"{name} at {nominal:%H:%M:%S}.{nominal.microsecond // 100_000}"
