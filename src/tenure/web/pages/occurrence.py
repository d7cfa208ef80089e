"""Occurrence: why a schedule ran at a time, or did not. It need not have run, nor be on record."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from tenure.errors import InvalidTrigger, NotFound
from tenure.model import Attempt, Kind, Occurrence, OccurrenceState, RunRecord, Schedule
from tenure.schedules.changes import trigger_of
from tenure.triggers import Explanation, moments
from tenure.web import descriptions, story
from tenure.web.drawing.waterfall import WIDTH, waterfall
from tenure.web.live import CHANGES, CLUSTER, RUNS
from tenure.web.reading import Reader, Store
from tenure.web.reasons import Asked, Why, to_occurrence, why, without_leader
from tenure.web.rendering import page

LOOKED_AT = 50
"""Around a time: missed stretches begin before it."""
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Look:
    asked: Asked
    why: Why
    attempts: list[Attempt]
    before: Occurrence | None


def routes(reader: Reader) -> list[BaseRoute]:
    async def show(request: Request) -> Response:
        name, kind = request.query_params.get("name", ""), request.query_params.get("kind", "")
        moment = _moment(request.query_params.get("at", ""))

        async def ask(store: Store) -> Look:
            schedule = (await store.schedules.find([name])).get(name)
            if schedule is None:
                raise NotFound(f"There is no schedule {name!r}.")
            return await look_at(store, schedule, moment, kind)

        look = await reader.ask(ask)
        asked, occurrence, run = look.asked, look.asked.occurrence, look.asked.run
        occurs = asked.told is None or asked.told.occurs
        state = "planned" if asked.moment > asked.now else "not on record"
        if occurrence is None and not occurs:
            state = "no occurrence"
        if occurrence is not None:
            state = str(occurrence.state if run is None else run.state)
        if run is not None:
            steps = story.steps_of_run(run, look.attempts, asked.now)
        else:
            steps = _steps(asked)
        phases = [] if run is None else story.phases(run, look.attempts, asked.now)
        return page(
            request,
            "occurrence.html",
            topics=f"{CHANGES} {CLUSTER} {RUNS}",
            now=asked.now,
            asked=asked,
            schedule=asked.schedule,
            occurrence=occurrence,
            run=run,
            why=look.why,
            state=state,
            steps=steps,
            rows=waterfall(phases),
            width=WIDTH,
            before=look.before,
            following=asked.following,
            to_occurrence=to_occurrence,
            occurs=occurs,
            left_out=occurrence is not None and occurrence.state is not OccurrenceState.FIRED,
            tones=descriptions.TONES,
        )

    return [Route("/occurrence", show)]


def _moment(text: str) -> datetime:
    """In UTC unless it says otherwise, as all times of these pages."""
    try:
        given = moments.read("at", text[:40])
        return (given if given.tzinfo else given.replace(tzinfo=UTC)).astimezone(UTC)
    except (InvalidTrigger, OverflowError) as error:
        raise HTTPException(HTTPStatus.BAD_REQUEST, str(error)) from None


async def look_at(store: Store, schedule: Schedule, moment: datetime, kind: str = "") -> Look:
    now = await store.now()
    until = moment if moment.second or moment.microsecond else _later(moment, MINUTE)
    past = await store.overview.occurrences(schedule.uid, LOOKED_AT, until=until)
    found = _recorded(past, moment, kind)
    run, attempts = None, list[Attempt]()
    if found is not None:
        moment = found.nominal
        if found.run_id is not None:
            runs = await store.overview.runs([found.run_id])
            run = runs[0] if runs else None
            attempts = await store.runs.attempts(found.run_id) if run is not None else []
    begin, end = _during(found, run, moment, now)
    leader, gaps = await without_leader(store, begin, end)
    asked = Asked(
        now,
        schedule,
        _told(schedule, moment),
        moment,
        found,
        run,
        await _following(store, schedule, found),
        leader,
        gaps,
    )
    before = next((each for each in past if each.last < moment), None)
    return Look(asked, await why(store, asked), attempts, before)


def _recorded(past: list[Occurrence], moment: datetime, kind: str) -> Occurrence | None:
    """The one at that time, or whose stretch it lies in; or in that minute, if none is given that
    closely. A plan's comes first."""
    planned = [each for each in past if not kind or each.kind == kind]
    planned.sort(key=lambda each: each.kind is not Kind.PLANNED)
    exactly = (each for each in planned if each.nominal <= moment <= each.last)
    about = (each for each in planned if moment <= each.nominal < _later(moment, MINUTE))
    found = next(exactly, None)
    if found is None and not moment.second and not moment.microsecond:
        found = next(about, None)
    return found


async def _following(
    store: Store, schedule: Schedule, found: Occurrence | None
) -> Occurrence | None:
    """The next planned one on record, if it is among the last ones."""
    if found is None:
        return None
    recent = await store.overview.occurrences(schedule.uid, LOOKED_AT)
    later = [each for each in recent if each.nominal > found.last and each.kind is Kind.PLANNED]
    return min(later, key=lambda each: each.nominal, default=None)


def _during(
    found: Occurrence | None, run: RunRecord | None, moment: datetime, now: datetime
) -> tuple[datetime, datetime]:
    """From when it was due until it was accounted for."""
    if found is None:
        return moment, max(moment, now)
    return found.nominal, found.recorded_at if run is None else run.created_at


def _told(schedule: Schedule, moment: datetime) -> Explanation | None:
    try:
        return trigger_of(schedule).explain(moment, schedule.uid)
    except (InvalidTrigger, OverflowError, ValueError):
        return None


def _steps(asked: Asked) -> list[story.Step]:
    if asked.occurrence is not None:
        return story.steps_without_run(asked.occurrence, asked.without_leader)
    occurs = asked.told is None or asked.told.occurs
    return [story.Step("Due" if occurs else "Asked about", asked.moment)]


def _later(moment: datetime, by: timedelta) -> datetime:
    try:
        return moment + by
    except OverflowError:
        return moment
