"""Occurrences: what became of each time of a schedule, and why one did not run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from http import HTTPStatus

from tenure.model import Kind, Occurrence, OccurrenceState, RunRecord, RunState
from tenure.printable import exception_line
from tenure.schedules.changes import trigger_of
from tenure.web.api import cursors
from tenure.web.api.access import Opened
from tenure.web.api.schedules import ExplanationAnswer, State, explained, state_of
from tenure.web.api.table import Call, Operation
from tenure.web.api.values import (
    Answer,
    Asked,
    Cursor,
    Limit,
    Moment,
    Time,
    iso,
    read_time,
)

_LOOKED_AT = 50
"""Around a time: missed stretches begin before it."""


class OccurrenceAnswer(Answer):
    """A nominal time, or a missed stretch from `nominal` to `last`."""

    nominal: Moment
    last: Moment
    kind: Kind
    state: OccurrenceState
    reason: str | None
    """Why it was skipped or missed."""
    recorded_at: Moment
    term: int
    run_id: int | None
    run_state: RunState | None
    """null if there is no run, or it was deleted because of its age."""
    error: str | None
    """Of its run: the line that says what it was."""


class OccurrencePage(Answer):
    """What became of the times of a schedule, the newest first."""

    items: list[OccurrenceAnswer]
    next: str | None


class WhyAnswer(Answer):
    """Whether a schedule occurs at a time, why, and what became of it."""

    schedule: str
    state: State
    reason: str | None
    """Why the schedule is not active, if it is not."""
    explanation: ExplanationAnswer
    recorded: OccurrenceAnswer | None
    """null if nothing is on record of that time."""


class ListOccurrences(Asked):
    """Up to when."""

    until: Time | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class ExplainTime(Asked):
    """Which time."""

    time: Time


def answer(occurrence: Occurrence, run: RunRecord | None) -> OccurrenceAnswer:
    return OccurrenceAnswer(
        nominal=iso(occurrence.nominal),
        last=iso(occurrence.last),
        kind=occurrence.kind,
        state=occurrence.state,
        reason=occurrence.reason,
        recorded_at=iso(occurrence.recorded_at),
        term=occurrence.term,
        run_id=occurrence.run_id,
        run_state=None if run is None else run.state,
        error=None if run is None else _summary(run.error),
    )


def _summary(error: str | None) -> str | None:
    return exception_line(str(error or ""))[:500] or None


async def _with_runs(opened: Opened, found: Sequence[Occurrence]) -> list[OccurrenceAnswer]:
    ids = [each.run_id for each in found if each.run_id is not None]
    runs = {run.id: run for run in await opened.stores.runs.find(ids)} if ids else {}
    return [answer(each, runs.get(each.run_id or 0)) for each in found]


async def list_occurrences(opened: Opened, call: Call) -> OccurrencePage:
    asked: ListOccurrences = call.query
    name = call.path["name"]
    place, told = cursors.time("occurrences", asked.cursor)
    if place is None and asked.until is not None:
        schedule = await opened.editor().get(name)
        place = trigger_of(schedule).explain(read_time("until", asked.until)).moment
    found = await opened.stores.schedules.occurrences(name, asked.limit + told + 1, until=place)
    if not found:
        await opened.editor().get(name)
    chosen = found[told : told + asked.limit]
    following = None
    if len(found) > told + asked.limit:
        last = chosen[-1].nominal
        same = sum(each.nominal == last for each in found[: told + asked.limit])
        following = cursors.after_time("occurrences", last, same)
    return OccurrencePage(items=await _with_runs(opened, chosen), next=following)


async def explain_time(opened: Opened, call: Call) -> WhyAnswer:
    asked: ExplainTime = call.query
    schedule = await opened.editor().get(call.path["name"])
    told = trigger_of(schedule).explain(read_time("time", asked.time), schedule.uid)
    found = await _recorded(opened, schedule.name, told.moment)
    return WhyAnswer(
        schedule=schedule.name,
        state=state_of(schedule),
        reason=schedule.reason,
        explanation=explained(told),
        recorded=(await _with_runs(opened, [found]))[0] if found is not None else None,
    )


async def _recorded(opened: Opened, name: str, moment: datetime) -> Occurrence | None:
    past = await opened.stores.schedules.occurrences(name, _LOOKED_AT, until=moment)
    return next((each for each in past if each.nominal <= moment <= each.last), None)


_MISSING = (HTTPStatus.NOT_FOUND,)
OPERATIONS = (
    Operation(
        "GET",
        "/schedules/{name}/occurrences",
        "listOccurrences",
        "List what became of its times: fired, skipped or missed, and why.",
        list_occurrences,
        OccurrencePage,
        query=ListOccurrences,
        problems=_MISSING,
    ),
    Operation(
        "GET",
        "/schedules/{name}/explain",
        "explainTime",
        "Say whether it occurs at a time, why, and what became of it.",
        explain_time,
        WhyAnswer,
        query=ExplainTime,
        problems=_MISSING,
    ),
)
