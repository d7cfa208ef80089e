"""Schedules: creating, changing, pausing, running now, backfilling, removing."""

from __future__ import annotations

import asyncio
import json
import secrets
from datetime import timedelta
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tenure import triggers
from tenure.errors import Conflict, InvalidTrigger
from tenure.model import CatchUp, Event, Kind, OnCrash, Overlap, occurrence_event
from tenure.schedules.drafts import NewSchedule
from tenure.schedules.editor import BACKFILL_LIMIT, stretch
from tenure.tasks.arguments import NUMBER_MOST
from tenure.triggers import Trigger
from tenure.web.api.access import Opened
from tenure.web.api.problems import conflict, no_precondition, unprocessable
from tenure.web.api.runs import RunAnswer
from tenure.web.api.runs import answer as run_answer
from tenure.web.api.schedules import ScheduleAnswer, told
from tenure.web.api.table import Call, Operation, Reply, Version
from tenure.web.api.values import Answer, Asked, Moment, Name, Text, Time, iso, read_time

TriggerText = Annotated[str, Meta(min_length=1, max_length=2_000)]


class EmitEvent(Asked):
    """The event to emit, instead of running a task."""

    topic: Name
    type: Name
    data: Any = None
    key: Name | None = None
    headers: dict[str, str] | None = None


class Policies(Asked):
    """What applies to its occurrences and runs. What is left out has its default, or stays."""

    catch_up: CatchUp | UnsetType = UNSET
    catch_up_limit: int | UnsetType = UNSET
    catch_up_grace: float | UnsetType = UNSET
    overlap: Overlap | UnsetType = UNSET
    lock: str | UnsetType | None = UNSET
    priority: int | UnsetType = UNSET
    timeout: float | UnsetType | None = UNSET
    retries: int | UnsetType = UNSET
    on_crash: OnCrash | UnsetType = UNSET


class PutSchedule(Policies, kw_only=True):
    """What a schedule should be: with a task to run or an event to emit."""

    trigger: TriggerText | dict[str, Any]
    task: Name | None = None
    kwargs: dict[str, Any] | None = None
    emit: EmitEvent | None = None
    tenant: Name | None = None


class CreateSchedule(PutSchedule, kw_only=True):
    """The same with its name."""

    name: Name


class UpdateSchedule(Policies):
    """What is to be changed; the rest stays. A null removes tenant, lock and timeout."""

    trigger: TriggerText | dict[str, Any] | UnsetType = UNSET
    task: Name | UnsetType = UNSET
    kwargs: dict[str, Any] | UnsetType = UNSET
    emit: EmitEvent | UnsetType = UNSET
    tenant: Name | UnsetType | None = UNSET


class Pause(Asked):
    """Why."""

    reason: Text | None = None


class Resume(Asked):
    """How to go on."""

    catch_up: bool = False


class Rename(Asked):
    """The new name."""

    to: Name


class Backfill(Asked):
    """From when to when, both included. A date means the whole day."""

    start: Time
    end: Time
    limit: Annotated[int, Meta(ge=1, le=10_000)] = BACKFILL_LIMIT
    dry_run: bool = False
    beyond_history: bool = False


class BackfillAnswer(Answer):
    """The times that were not fired before: of a dry run, those that would be."""

    schedule: str
    dry_run: bool
    nominal: list[Moment]


class RunNowAnswer(Answer):
    """The run, or of a schedule that emits the event's id. `new`: was it made by this call?"""

    run: RunAnswer | None
    event: str | None
    new: bool


def event_of(given: EmitEvent) -> Event:
    return Event(
        topic=given.topic,
        type=given.type,
        data=given.data,
        key=given.key,
        headers=given.headers or {},
    )


async def trigger_of(given: str | dict[str, Any]) -> Trigger:
    """On a thread: reading it may take half a second, and here leases are renewed."""
    text = given if isinstance(given, str) else json.dumps(given)
    return await asyncio.to_thread(triggers.parse, text)


def given_policies(body: msgspec.Struct, kind: type[msgspec.Struct]) -> dict[str, Any]:
    found = {name: getattr(body, name) for name in kind.__struct_fields__}
    return {name: value for name, value in found.items() if value is not UNSET}


async def _trigger(call: Call) -> Trigger:
    if "trigger" not in call.read:
        call.read["trigger"] = await trigger_of(call.body.trigger)
    found: Trigger = call.read["trigger"]
    return found


async def _new(name: str, call: Call) -> NewSchedule:
    body: PutSchedule = call.body
    return NewSchedule(
        name,
        await _trigger(call),
        task=body.task,
        kwargs=body.kwargs,
        emit=None if body.emit is None else event_of(body.emit),
        tenant=body.tenant,
        **given_policies(body, Policies),
    )


def _expected(call: Call) -> int | None:
    """No version is greater than that, and PostgreSQL compares no greater number."""
    return None if call.expected is None else min(call.expected, NUMBER_MOST)


async def create_schedule(opened: Opened, call: Call) -> Reply:
    body: CreateSchedule = call.body
    added = await opened.editor(body.task).add(await _new(body.name, call))
    reply = await told(opened, added)
    place = ("schedules", added.name)
    return Reply(reply.answer, HTTPStatus.CREATED, version=added.version, location=place)


def _expected_by_put(call: Call) -> int | None:
    """Without a version there must be none."""
    unconditional = call.expected is None and not call.any_version
    return 0 if unconditional else _expected(call)


async def put_difference(opened: Opened, call: Call) -> str:
    body: PutSchedule = call.body
    new = await _new(call.path["name"], call)
    return await opened.editor(body.task).difference_to(new, _expected_by_put(call))


async def put_schedule(opened: Opened, call: Call) -> Reply:
    body: PutSchedule = call.body
    expected = _expected_by_put(call)
    new = await _new(call.path["name"], call)
    try:
        stored, is_new = await opened.editor(body.task).put(new, expected)
    except Conflict as error:
        if call.expected is None and expected == 0 and error.schedule is not None:
            raise no_precondition() from error
        raise
    reply = await told(opened, stored)
    if not is_new:
        return reply
    place = ("schedules", stored.name)
    return Reply(reply.answer, HTTPStatus.CREATED, version=stored.version, location=place)


async def _changes(call: Call) -> dict[str, Any]:
    given = given_policies(call.body, UpdateSchedule)
    if "trigger" in given:
        given["trigger"] = await _trigger(call)
    if "emit" in given:
        given["emit"] = event_of(given["emit"])
    return {**given, "expected_version": _expected(call)}


async def update_difference(opened: Opened, call: Call) -> str:
    changes = await _changes(call)
    return await opened.editor(changes.get("task")).difference(call.path["name"], **changes)


async def update_schedule(opened: Opened, call: Call) -> Reply:
    changes = await _changes(call)
    changed = await opened.editor(changes.get("task")).update(call.path["name"], **changes)
    return await told(opened, changed)


async def remove_schedule(opened: Opened, call: Call) -> Reply:
    await opened.editor().remove(call.path["name"], _expected(call))
    return Reply(None)


async def pause_schedule(opened: Opened, call: Call) -> Reply:
    body: Pause = call.body
    changed = await opened.editor().pause(call.path["name"], body.reason, _expected(call))
    return await told(opened, changed)


async def resume_schedule(opened: Opened, call: Call) -> Reply:
    body: Resume = call.body
    changed = await opened.editor().resume(
        call.path["name"], catch_up=body.catch_up, expected_version=_expected(call)
    )
    return await told(opened, changed)


async def rename_schedule(opened: Opened, call: Call) -> Reply:
    body: Rename = call.body
    changed = await opened.editor().rename(call.path["name"], body.to, _expected(call))
    return await told(opened, changed)


async def run_now(opened: Opened, call: Call) -> Reply:
    name, key = call.path["name"], call.key or secrets.token_hex(8)
    editor = opened.editor()
    schedule = await editor.get(name)
    run_id, new = await editor.request_run(name, key)
    status = HTTPStatus.CREATED if new else HTTPStatus.OK
    if schedule.spec.event is not None:
        made = occurrence_event(schedule.uid, Kind.MANUAL, key)
        return Reply(RunNowAnswer(run=None, event=made, new=new), status)
    if run_id is None:
        raise conflict(
            f"{name!r} was not run, because its policy is overlap=skip and an earlier run of the"
            " same lock is unfinished.",
            "skipped",
        )
    run = await opened.run(run_id)
    place = ("runs", str(run.id)) if new else None
    return Reply(RunNowAnswer(run=run_answer(run), event=None, new=new), status, location=place)


async def backfill(opened: Opened, call: Call) -> BackfillAnswer:
    body: Backfill = call.body
    name, editor = call.path["name"], opened.editor()
    trigger = triggers.load((await editor.get(name)).spec.trigger)
    try:
        first = trigger.explain(read_time("start", body.start)).moment
        last = trigger.explain(read_time("end", body.end)).moment
        if len(body.end.strip()) == len("2026-03-01"):
            last += timedelta(days=1, microseconds=-1)
        stretch(first, last)
    except (InvalidTrigger, OverflowError) as error:
        raise unprocessable(str(error)) from error
    chosen = await editor.backfill(
        name,
        first,
        last,
        limit=body.limit,
        dry_run=body.dry_run,
        beyond_history=body.beyond_history,
    )
    return BackfillAnswer(schedule=name, dry_run=body.dry_run, nominal=[iso(n) for n in chosen])


_MISSING, _CONFLICT = HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT
_MADE = (HTTPStatus.CREATED, HTTPStatus.OK)


def _change(verb: str, summary: str, handler: Any, body: type[Asked]) -> Operation:
    return Operation(
        "POST",
        f"/schedules/{{name}}/{verb}",
        f"{verb}Schedule",
        summary,
        handler,
        ScheduleAnswer,
        body=body,
        body_optional=body is not Rename,
        version=Version.REQUIRED,
        tells_version=True,
        problems=(_MISSING, _CONFLICT),
    )


OPERATIONS = (
    Operation(
        "POST",
        "/schedules",
        "createSchedule",
        "Add a schedule.",
        create_schedule,
        ScheduleAnswer,
        (HTTPStatus.CREATED,),
        body=CreateSchedule,
        tells_version=True,
        problems=(_CONFLICT,),
    ),
    Operation(
        "PUT",
        "/schedules/{name}",
        "putSchedule",
        "Add it, or make the one of this name what the body says.",
        put_schedule,
        ScheduleAnswer,
        _MADE,
        body=PutSchedule,
        difference=put_difference,
        version=Version.IF_EXISTS,
        tells_version=True,
        problems=(_MISSING, _CONFLICT),
    ),
    Operation(
        "PATCH",
        "/schedules/{name}",
        "updateSchedule",
        "Change what is given, and leave the rest.",
        update_schedule,
        ScheduleAnswer,
        body=UpdateSchedule,
        difference=update_difference,
        version=Version.REQUIRED,
        tells_version=True,
        problems=(_MISSING, _CONFLICT),
    ),
    Operation(
        "DELETE",
        "/schedules/{name}",
        "removeSchedule",
        "Remove it, and cancel its waiting runs.",
        remove_schedule,
        None,
        (HTTPStatus.NO_CONTENT,),
        version=Version.REQUIRED,
        problems=(_MISSING, _CONFLICT),
    ),
    _change("pause", "Fire it no more until it is resumed.", pause_schedule, Pause),
    _change("resume", "Let a paused one go on.", resume_schedule, Resume),
    _change("rename", "Give it another name; its history stays.", rename_schedule, Rename),
    Operation(
        "POST",
        "/schedules/{name}/run-now",
        "runNow",
        "Run it once, now, outside its plan, even if it is paused.",
        run_now,
        RunNowAnswer,
        _MADE,
        idempotent=True,
        problems=(_MISSING, _CONFLICT),
    ),
    Operation(
        "POST",
        "/schedules/{name}/backfill",
        "backfill",
        "Run what was missed or skipped between two times.",
        backfill,
        BackfillAnswer,
        body=Backfill,
        idempotent=True,
        remembers=True,
        problems=(_MISSING, _CONFLICT),
    ),
)
