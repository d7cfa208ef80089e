"""Schedules: what there is, when they fire next, and why a time is one of theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from http import HTTPStatus
from typing import Annotated, Any, Literal

from msgspec import Meta

from tenure import triggers
from tenure.errors import InvalidTrigger
from tenure.model import (
    LATE_BOUNDS,
    CatchUp,
    Content,
    OnCrash,
    Overlap,
    Schedule,
    ScheduleSummary,
    Sought,
)
from tenure.schedules.changes import ORPHANED, is_orphaned, trigger_of
from tenure.schedules.planning import SET_ASIDE
from tenure.triggers import Explanation, Trigger
from tenure.web.api import cursors
from tenure.web.api.access import Opened
from tenure.web.api.facets import FacetsAnswer, facets_answer
from tenure.web.api.problems import unprocessable
from tenure.web.api.table import Call, Operation, Reply
from tenure.web.api.values import (
    Answer,
    Asked,
    Cursor,
    Limit,
    Moment,
    Time,
    Wanted,
    iso,
    iso_or_none,
    read_time,
    stored_json,
)

LATE = 10.0
"""Seconds."""
PORTION = 500
PORTIONS = 10
"""A page with filters that the store does not know reads at most so many portions."""
State = Literal["active", "ended", "paused", "orphaned", "set aside"]


class EmittedEvent(Answer):
    """The event that a schedule emits."""

    topic: str
    type: str
    data: Any
    key: str | None
    headers: Any


class ScheduleAnswer(Answer):
    """A schedule. Its ETag is its version, which a change raises and a firing does not."""

    name: str
    uid: int
    state: State
    active: bool
    reason: str | None
    trigger: Any
    rule: str
    """The trigger in words."""
    task: str
    kwargs: Any
    emit: EmittedEvent | None
    tenant: str | None
    app: str | None
    """The app whose code declares it; null if it was added at run time."""
    next_nominal: Moment | None
    next_due: Moment | None
    catch_up: CatchUp
    catch_up_limit: int
    catch_up_grace: float
    overlap: Overlap
    lock: str | None
    priority: int
    timeout: float | None
    retries: int
    on_crash: OnCrash
    version: int
    created_at: Moment
    updated_at: Moment
    recent: list[str]
    """What became of the last ten planned occurrences, the newest first."""
    failing: bool
    """Its last run failed or was lost, as of some seconds ago."""
    late_p95: float | None
    """95 % of its last one to two hundred runs began at most so many seconds late: 0.01, 0.03, 0.1
    and so on, up to 600; null if nothing is known."""
    late_p95_is_more: bool
    """They began later than that."""


class SchedulePage(Answer):
    """Schedules by name, and where the next page begins."""

    items: list[ScheduleAnswer]
    next: str | None
    """The cursor of the next page; null on the last one. A page may be empty and not the last."""
    facets: FacetsAnswer | None
    """If `facets=true` asked for them."""


class ExplanationAnswer(Answer):
    """A time, and what the trigger says about it."""

    nominal: Moment
    local: str
    due: Moment | None
    occurs: bool
    reason: str
    note: str | None
    text: str
    previous: Moment | None
    following: Moment | None
    left_out: list[ExplanationAnswer]


class Preview(Answer):
    """The next times of a trigger."""

    rule: str
    times: list[ExplanationAnswer]


class ListSchedules(Asked):
    """Filters; without any, all schedules."""

    tenant: Wanted | None = None
    state: State | None = None
    task: Wanted | None = None
    app: Wanted | None = None
    text: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    """Only those with this in their name."""
    failing: bool = False
    """Only those whose last run failed or was lost."""
    late: bool = False
    """Only those that have been due for more than 10 seconds."""
    facets: bool = False
    """Also how many there are of each kind."""
    ended: bool = False
    """Also those that ended longer ago than the retention."""
    limit: Limit = 50
    cursor: Cursor | None = None


Count = Annotated[int, Meta(ge=1, le=100)]


class PreviewSchedule(Asked):
    """How many times, and from when on."""

    count: Count = 5
    after: Time | None = None


class PreviewTrigger(Asked):
    """A trigger that need not be stored, as text."""

    trigger: Annotated[str, Meta(min_length=1, max_length=2_000)]
    tz: Wanted | None = None
    count: Count = 5
    after: Time | None = None


def state_of(schedule: Schedule) -> State:
    if schedule.active:
        return "active" if schedule.next_due is not None else "ended"
    if is_orphaned(schedule):
        return "orphaned"
    return "set aside" if (schedule.reason or "").startswith(SET_ASIDE) else "paused"


def answer(
    schedule: Schedule, recent: Sequence[str] = (), known: ScheduleSummary | None = None
) -> ScheduleAnswer:
    spec, p95 = schedule.spec, None if known is None else known.p95
    return ScheduleAnswer(
        name=schedule.name,
        uid=schedule.uid,
        state=state_of(schedule),
        active=schedule.active,
        reason=schedule.reason,
        trigger=stored_json(spec.trigger),
        rule=_rule(schedule),
        task=spec.task,
        kwargs=stored_json(spec.kwargs),
        emit=None if spec.event is None else _emitted(spec.event),
        tenant=spec.tenant,
        app=spec.app,
        next_nominal=iso_or_none(schedule.next_nominal),
        next_due=iso_or_none(schedule.next_due),
        catch_up=spec.catch_up,
        catch_up_limit=spec.catch_up_limit,
        catch_up_grace=spec.catch_up_grace,
        overlap=spec.overlap,
        lock=spec.lock,
        priority=spec.priority,
        timeout=spec.timeout,
        retries=spec.retries,
        on_crash=spec.on_crash,
        version=schedule.version,
        created_at=iso(schedule.created_at),
        updated_at=iso(schedule.updated_at),
        recent=list(recent),
        failing=known is not None and known.failing,
        late_p95=None if p95 is None else min(p95, LATE_BOUNDS[-1]),
        late_p95_is_more=p95 is not None and p95 > LATE_BOUNDS[-1],
    )


def _rule(schedule: Schedule) -> str:
    try:
        return str(triggers.load(schedule.spec.trigger))
    except InvalidTrigger:
        return "unreadable"


def _emitted(content: Content) -> EmittedEvent:
    return EmittedEvent(
        topic=content.topic,
        type=content.type,
        data=stored_json(content.data),
        key=content.key,
        headers=stored_json(content.headers),
    )


async def with_recent(opened: Opened, found: Sequence[Schedule]) -> list[ScheduleAnswer]:
    uids = [schedule.uid for schedule in found]
    recent = await opened.stores.schedules.recent(uids) if uids else {}
    known = await opened.stores.summaries.of(uids) if uids else {}
    return [answer(s, recent.get(s.uid, []), known.get(s.uid)) for s in found]


async def told(opened: Opened, schedule: Schedule) -> Reply:
    [answered] = await with_recent(opened, [schedule])
    return Reply(answered, version=schedule.version)


async def list_schedules(opened: Opened, call: Call) -> SchedulePage:
    asked: ListSchedules = call.query
    after = cursors.text("schedules", asked.cursor)
    filtered = any(value is not None for value in (asked.state, asked.task, asked.app, asked.text))
    portion, more, found = PORTION if filtered else asked.limit, True, list[Schedule]()
    for _ in range(PORTIONS):
        named = await _portion(opened, asked, portion, after)
        for schedule in named:
            after = schedule.name
            if _matches(schedule, asked):
                found.append(schedule)
            if len(found) == asked.limit:
                break
        more = len(found) == asked.limit or len(named) == portion
        if len(found) == asked.limit or not more:
            break
    following = cursors.after_name("schedules", after) if more else None
    facets = await opened.backend.overview.facets(LATE, ORPHANED) if asked.facets else None
    return SchedulePage(
        items=await with_recent(opened, found),
        next=following,
        facets=None if facets is None else facets_answer(facets),
    )


async def _portion(
    opened: Opened, asked: ListSchedules, limit: int, after: str | None
) -> Sequence[Schedule]:
    if asked.failing or asked.late:
        sought = Sought(
            text=asked.text,
            tenant=asked.tenant,
            app=asked.app,
            late=LATE if asked.late else None,
            failing=asked.failing,
        )
        return await opened.backend.overview.schedules(sought, limit=limit, after=after)
    named = await opened.stores.schedules.find(
        tenant=asked.tenant, limit=limit, ended=asked.ended, after=after
    )
    return list(named.values())


def _matches(schedule: Schedule, asked: ListSchedules) -> bool:
    return (
        asked.state in (None, state_of(schedule))
        and asked.task in (None, schedule.spec.task)
        and asked.app in (None, schedule.spec.app)
        and (asked.text is None or asked.text.casefold() in str(schedule.name).casefold())
    )


async def get_schedule(opened: Opened, call: Call) -> Reply:
    return await told(opened, await opened.editor().get(call.path["name"]))


async def preview_schedule(opened: Opened, call: Call) -> Preview:
    asked: PreviewSchedule = call.query
    schedule = await opened.editor().get(call.path["name"])
    trigger, now = trigger_of(schedule), await opened.stores.now()
    planned = schedule.next_nominal if schedule.active else None
    after = now if planned is None else planned - timedelta(microseconds=1)
    if asked.after is not None:
        after = _first(trigger, asked.after)
    # On a thread: a rare trigger may take a while, and here leases are renewed.
    times = await asyncio.to_thread(trigger.preview, asked.count, after, schedule.uid)
    return Preview(rule=str(trigger), times=[explained(each) for each in times])


async def preview_trigger(opened: Opened, call: Call) -> Preview:
    asked: PreviewTrigger = call.query
    zone, now = asked.tz or opened.tz, await opened.stores.now()

    def previewed() -> tuple[Trigger, list[Explanation]]:
        given = triggers.parse(asked.trigger)
        trigger = (given if zone is None else given.zoned(zone)).anchored(now)
        after = now if asked.after is None else _first(trigger, asked.after)
        return trigger, trigger.preview(asked.count, after, None)

    trigger, times = await asyncio.to_thread(previewed)
    return Preview(rule=str(trigger), times=[explained(each) for each in times])


def _first(trigger: Trigger, given: str) -> Any:
    try:
        return trigger.explain(read_time("after", given)).moment - timedelta(microseconds=1)
    except OverflowError as error:
        raise unprocessable("after: beyond the calendar.") from error


def explained(found: Explanation) -> ExplanationAnswer:
    return ExplanationAnswer(
        nominal=iso(found.moment),
        local=found.local.isoformat(),
        due=iso_or_none(found.due),
        occurs=found.occurs,
        reason=found.reason,
        note=found.note or None,
        text=found.text,
        previous=iso_or_none(found.previous),
        following=iso_or_none(found.following),
        left_out=[explained(each) for each in found.left_out],
    )


_MISSING = (HTTPStatus.NOT_FOUND,)
OPERATIONS = (
    Operation(
        "GET",
        "/schedules",
        "listSchedules",
        "List schedules by name.",
        list_schedules,
        SchedulePage,
        query=ListSchedules,
    ),
    Operation(
        "GET",
        "/schedules/{name}",
        "getSchedule",
        "Show a schedule.",
        get_schedule,
        ScheduleAnswer,
        tells_version=True,
        problems=_MISSING,
    ),
    Operation(
        "GET",
        "/schedules/{name}/preview",
        "previewSchedule",
        "Show its next times, with the reasons.",
        preview_schedule,
        Preview,
        query=PreviewSchedule,
        problems=_MISSING,
    ),
    Operation(
        "GET",
        "/preview",
        "previewTrigger",
        "Show the next times of a trigger that need not be stored.",
        preview_trigger,
        Preview,
        query=PreviewTrigger,
    ),
)
