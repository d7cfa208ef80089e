"""What the demo has shown, judged from evidence.

Two witnesses are compared with the plan: the journal, which the tasks wrote themselves, and the
store's record. The plan is enumerated here, from the triggers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import pairwise
from math import ceil
from typing import Any, NamedTuple

from tenure.cli.demo.node import SCHEDULES, TTL, Execution
from tenure.cli.output import iso
from tenure.model import Occurrence, OccurrenceState, RunRecord

BOUND = TTL + 1.0
"""Within so many seconds a successor must have fired."""
_INSTANT = timedelta(microseconds=1)
_Key = tuple[str, datetime]
_Pair = tuple[Execution, Execution]


@dataclass(slots=True)
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

    def to_json(self) -> dict[str, Any]:
        moments = {"at": iso(self.at), "fired_at": iso(self.fired_at)}
        return {**asdict(self), **moments, "seconds": self.seconds}


class Promise(NamedTuple):
    text: str
    kept: bool
    detail: str


@dataclass(frozen=True)
class Verdict:
    """Everything that was observed, and what follows from it."""

    created: Mapping[str, datetime]
    """When each schedule was."""
    ready: datetime
    """From when on all nodes were up."""
    until: datetime
    """What was due up to here had the time to come to its end."""
    occurrences: Sequence[Occurrence]
    runs: Sequence[RunRecord]
    executions: Sequence[Execution]
    takeovers: Sequence[Takeover]

    @property
    def kept(self) -> bool:
        return all(promise.kept for promise in self.promises)

    @property
    def promises(self) -> Iterator[Promise]:
        count = self.counts
        said = f"{count['fired']} fired, {count['duplicates']} duplicates"
        said += f", {count['reruns']} run again after its node was lost" if count["reruns"] else ""
        yield Promise("nothing fired twice", not count["duplicates"], said)
        said = "{planned} planned, {unaccounted} unaccounted, {missed} missed, {skipped} skipped"
        kept = count["fired"] > 0 and not count["unaccounted"]
        yield Promise("nothing dropped", kept, said.format_map(count))
        yield Promise("nothing early", not count["early"], f"{count['early']} early")
        terms = [run.term for run in sorted(self.runs, key=lambda run: run.id)]
        kept, known = terms == sorted(terms), ", ".join(map(str, sorted(set(terms)))) or "none"
        said = f"terms {known}; {'no' if kept else 'a'} firing under an old one"
        yield Promise("one leader acts at a time", kept, said)
        if self.takeovers:
            took = [t.seconds for t in self.takeovers if t.seconds is not None]
            kept = len(took) == len(self.takeovers) and max(took) <= BOUND
            said = f", the slowest after {max(took):.2f} s" if took else ""
            said = f"{len(took)} of {len(self.takeovers)}{said}; bound {BOUND:g} s"
            yield Promise("a successor fires in time", kept, said)

    @property
    def counts(self) -> dict[str, int]:
        counts = {"planned": len(self._plan), "fired": len(self._fired)}
        counts |= {name: len(found) for name, found in self._findings.items()}
        return counts | {"reruns": len(self._repeats[1])}

    @property
    def notes(self) -> list[str]:
        """What there is to say about single occurrences, the worst first."""
        return [
            f"{name} at {at:%H:%M:%S}.{at.microsecond // 100_000}: {text}"
            for found in self._findings.values()
            for (name, at), text in sorted(found.items())
        ]

    @property
    def lateness(self) -> dict[str, dict[str, float]]:
        """Calm: of those that had a leader from due to started. Leaderless: that waited for one."""
        gaps = [(t.at, t.fired_at or self.until) for t in self.takeovers]
        gaps.append((min(self.created.values(), default=self.ready), self.ready))
        late: dict[str, list[float]] = {"calm": [], "leaderless": []}
        for e in self.executions:
            if e.attempt == 1:
                waited = any(e.nominal <= end and begin <= e.at for begin, end in gaps)
                late["leaderless" if waited else "calm"].append(e.late)
        return {name: percentiles(values) for name, values in late.items()}

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self.kept,
            **self.counts,
            "terms": sorted({run.term for run in self.runs}),
            "takeovers": [takeover.to_json() for takeover in self.takeovers],
            "bound": BOUND,
            "promises": [promise._asdict() for promise in self.promises],
            "notes": self.notes,
            "lateness": self.lateness,
        }

    @cached_property
    def _plan(self) -> set[_Key]:
        """All nominal times, from when a schedule was created, or first recorded."""
        begin = {name: at + _INSTANT for name, at in self.created.items()}
        for o in self.occurrences:
            begin[o.schedule] = min(begin[o.schedule], o.nominal)
        return {(name, at) for name in begin for at in _nominals(name, begin[name], self.until)}

    @cached_property
    def _fired(self) -> set[_Key]:
        """Not what was fired after the end of the plan, before the nodes were gone."""
        return {_key(o) for o in self.occurrences if o.state is OccurrenceState.FIRED} & self._plan

    @cached_property
    def _findings(self) -> dict[str, dict[_Key, str]]:
        executions, occurrences, plan = self.executions, self.occurrences, self._plan
        runs = {(_key(run), run.id) for run in self.runs} | {(_key(e), e.run) for e in executions}
        twice = {key for key, count in Counter(key for key, _ in runs).items() if count > 1}
        twice |= {_key(two) for _, two in self._repeats[0]}
        early = {_key(e) for e in executions if e.at < e.nominal}
        early |= {_key(o) for o in occurrences if o.recorded_at < o.nominal}
        early |= {k for k in map(_key, occurrences) if SCHEDULES[k[0]].latest(k[1]) != k[1]}
        records = {  # a missed stretch is one record of several occurrences
            (o.schedule, at): f"{o.state} ({o.reason})"
            for o in occurrences
            for at in _nominals(o.schedule, o.nominal, o.last)
        }
        unaccounted = (plan - records.keys()) | (self._fired - {_key(e) for e in executions})
        return {
            "duplicates": dict.fromkeys(twice, "fired or executed twice"),
            "unaccounted": dict.fromkeys(unaccounted, "not accounted for"),
            "early": dict.fromkeys(early, "before its time, or not in the plan"),
            "missed": {k: v for k, v in records.items() if k in plan and v.startswith("missed")},
            "skipped": {k: v for k, v in records.items() if k in plan and v.startswith("skipped")},
        }

    @cached_property
    def _repeats(self) -> tuple[list[_Pair], list[_Pair]]:
        """Executions that repeat another: without an excuse, and for good reason.

        A run may begin again if its node was lost: we did it, or the store has a crash on record.
        """
        harmed = {takeover.pid for takeover in self.takeovers if takeover.how != "stopped"}
        crashed = {run.id for run in self.runs if run.crashes}
        pairs: tuple[list[_Pair], list[_Pair]] = [], []
        ordered = sorted(self.executions, key=lambda e: (_key(e), e.attempt, e.at))
        for one, two in pairwise(ordered):
            if _key(one) == _key(two):
                lost = one.pid in harmed or two.run in crashed
                pairs[one.attempt < two.attempt and lost].append((one, two))
        return pairs


def percentiles(values: Iterable[float]) -> dict[str, float]:
    ordered = sorted(values)
    shares = {"p50": 0.5, "p99": 0.99, "most": 1.0}
    found = {n: ordered[ceil(s * len(ordered)) - 1] if ordered else 0.0 for n, s in shares.items()}
    return {"count": len(ordered), **found}


def _nominals(schedule: str, begin: datetime, end: datetime) -> Iterator[datetime]:
    moment = SCHEDULES[schedule].next(begin - _INSTANT)
    while moment is not None and moment <= end:
        yield moment
        moment = SCHEDULES[schedule].next(moment)


def _key(found: Occurrence | RunRecord | Execution) -> _Key:
    return found.schedule or "", found.nominal
