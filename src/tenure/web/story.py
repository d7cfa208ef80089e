"""What happened to an occurrence and to its run, step by step, and where the time went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from tenure.model import Attempt, Kind, Occurrence, RunRecord, RunState
from tenure.web.descriptions import TONES
from tenure.web.drawing.strip import Stretch
from tenure.words import span

LATE = 1.0
"""Seconds: below this it counts as on time."""
SHOWN = 20
"""How many attempts are drawn: the last ones."""


@dataclass(frozen=True, slots=True)
class Step:
    """What, when, how it looks, and a word about it."""

    name: str
    at: datetime | None
    tone: str = ""
    word: str = ""


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of time: waiting, or an attempt."""

    name: str
    begin: datetime
    end: datetime
    tone: str = ""
    goes_on: bool = False

    @property
    def seconds(self) -> float:
        return max(0.0, (self.end - self.begin).total_seconds())


@dataclass(frozen=True, slots=True)
class Gap:
    """Nobody led from then to then, and why."""

    begin: datetime
    end: datetime
    why: str
    goes_on: bool


def gaps(known: Sequence[Stretch], begin: datetime, end: datetime, now: datetime) -> list[Gap]:
    """When nobody led between two times. Before the first known line nothing is said."""
    found = []
    for n, each in enumerate(known):
        following = known[n + 1].begin if n + 1 < len(known) else None
        until = following or now
        if each.end < end and until > begin and (until - each.end).total_seconds() >= LATE:
            why = each.line.end or f"pid {each.line.pid} on {each.line.host} fell silent"
            found.append(Gap(each.end, until, why, following is None))
    return found


def steps_of_run(run: RunRecord, attempts: Sequence[Attempt], now: datetime) -> list[Step]:
    """From its nominal time to its end, as far as it has come."""
    late = ""
    if run.kind is Kind.PLANNED:
        seconds = (run.created_at - run.nominal).total_seconds()
        late = "on time" if abs(seconds) < LATE else f"{span(abs(seconds))} late"
    found = [Step("Due", run.nominal, "", str(run.kind)), Step("Fired", run.created_at, "ok", late)]
    known = {attempt.claim for attempt in attempts}
    for attempt in attempts:
        outcome = str(attempt.outcome or "running")
        number = f"Attempt {attempt.attempt}"
        found.append(Step(f"{number} began", attempt.started_at, "run", attempt.node))
        if attempt.ended_at is not None:
            found.append(Step(f"{number} {outcome}", attempt.ended_at, TONES.get(outcome, "")))
    if run.claimed_at is not None and run.claim not in known:
        found.append(Step(f"Attempt {run.attempt} began", run.claimed_at, "run", run.node or ""))
    if run.cancel_requested_at is not None:
        found.append(Step("Asked to cancel", run.cancel_requested_at, "warn"))
    if run.finished_at is not None and run.finished_at not in {step.at for step in found}:
        found.append(Step(str(run.state).capitalize(), run.finished_at, TONES[run.state]))
    elif run.state is RunState.WAITING and run.due > now:
        found.append(Step("Due again" if run.attempt else "Due", run.due, "", "waits"))
    return sorted(found, key=lambda step: step.at or now)


def steps_without_run(occurrence: Occurrence, without_leader: Sequence[Gap]) -> list[Step]:
    """Of one that made no run: when it was due, and when and as what it was recorded."""
    found = [Step("Due", occurrence.nominal, "", str(occurrence.kind))]
    if occurrence.last != occurrence.nominal:
        found = [
            Step("The first of them due", occurrence.nominal),
            Step("The last of them due", occurrence.last),
        ]
    for gap in without_leader:
        found.append(Step("Nobody led", gap.begin, "bad", gap.why))
        if not gap.goes_on:
            found.append(Step("A node led again", gap.end, "ok"))
    state = str(occurrence.state)
    word = f"by term {occurrence.term}" if occurrence.term else ""
    found.append(Step(state.capitalize(), occurrence.recorded_at, TONES.get(state, ""), word))
    return sorted(found, key=lambda step: step.at or occurrence.recorded_at)


def phases(run: RunRecord, attempts: Sequence[Attempt], now: datetime) -> list[Phase]:
    """Where the time went, from its nominal time to its end or to now."""
    found = list(_phases(run, attempts, now))
    return [each for each in found if each.end > each.begin or "Attempt" in each.name]


def _phases(run: RunRecord, attempts: Sequence[Attempt], now: datetime) -> Iterator[Phase]:
    at = run.created_at
    if run.kind is Kind.PLANNED:
        yield Phase("Until it was fired", run.nominal, at, "warn")
    waited = "Waiting for a node"
    for name, begin, end, tone in _attempts(run, attempts)[-SHOWN:]:
        yield Phase(waited, at, begin)
        yield Phase(name, begin, end or now, tone, goes_on=end is None)
        at, waited = end or now, "Until it was tried again"
    if run.state is RunState.WAITING:
        yield Phase("Waits", at, max(at, now), goes_on=True)


def _attempts(
    run: RunRecord, attempts: Sequence[Attempt]
) -> list[tuple[str, datetime, datetime | None, str]]:
    """Those on record, and the last one, of which there is no record if it said nothing."""
    found = [
        (
            f"Attempt {each.attempt}",
            each.started_at,
            each.ended_at,
            TONES.get(str(each.outcome or "running"), ""),
        )
        for each in attempts
    ]
    if run.claimed_at is not None and run.claim not in {each.claim for each in attempts}:
        end, tone = run.finished_at, TONES[run.state]
        found.append((f"Attempt {run.attempt}", run.claimed_at, end, tone))
    return sorted(found, key=lambda each: each[1])
