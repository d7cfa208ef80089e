"""What is done to runs: a task is run once, a run is retried, cancelled or cleared."""

from __future__ import annotations

import secrets
from datetime import UTC
from http import HTTPStatus
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from tenure.model import OnCrash, RunState
from tenure.process.clock import SystemClock
from tenure.triggers import moments, zones
from tenure.web.api.access import Opened
from tenure.web.api.problems import conflict, unprocessable
from tenure.web.api.runs import RunAnswer, answer
from tenure.web.api.table import Call, Operation, Reply
from tenure.web.api.values import Answer, Asked, Name, Text, Time, Wanted, read_time


class EnqueueAnswer(Answer):
    """The run. `new`: was it made by this call, or does it have the key already?"""

    run: RunAnswer
    new: bool


class Enqueue(Asked):
    """A task to run once: now, at a time, or after so many seconds."""

    task: Name
    kwargs: dict[str, Any] | None = None
    at: Time | None = None
    tz: Wanted | None = None
    delay: float | None = None
    tenant: Name | None = None
    lock: str | UnsetType | None = UNSET
    priority: int | UnsetType = UNSET
    timeout: float | UnsetType | None = UNSET
    retries: int | UnsetType = UNSET
    on_crash: OnCrash | UnsetType = UNSET


class RetryRun(Asked):
    """Whether to insist."""

    even_succeeded: bool = False


class ClearLock(Asked):
    """How many seconds the run has to end by itself, and why; kept as its error."""

    wait: Annotated[float, Meta(ge=0, le=20)] = 10.0
    reason: Text | None = None


async def enqueue(opened: Opened, call: Call) -> Reply:
    body: Enqueue = call.body
    if body.tz is not None and body.at is None:
        raise unprocessable("tz belongs to at: give a time with it.")
    names = ("lock", "priority", "timeout", "retries", "on_crash")
    given = {name: getattr(body, name) for name in names}
    zone = UTC if body.tz is None else zones.zone(body.tz)
    at = None if body.at is None else moments.resolve(read_time("at", body.at), zone)
    new = opened.drafts(body.task).run(
        body.task,
        kwargs=body.kwargs,
        at=at,
        delay=body.delay,
        key=call.key or secrets.token_hex(8),
        tenant=body.tenant,
        **{name: value for name, value in given.items() if value is not UNSET},
    )
    run, is_new = await opened.stores.runs.enqueue(new)
    if not is_new and run.arguments != new.kwargs:
        raise unprocessable(
            f"Idempotency-Key: run {run.id} has this key, with other arguments. Nothing was added."
        )
    status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
    place = ("runs", str(run.id)) if is_new else None
    return Reply(EnqueueAnswer(run=answer(run), new=is_new), status, location=place)


async def retry(opened: Opened, call: Call) -> RunAnswer:
    body: RetryRun = call.body
    run_id = int(call.path["run"])
    return answer(await opened.control.retry(run_id, even_succeeded=body.even_succeeded))


async def cancel(opened: Opened, call: Call) -> RunAnswer:
    return answer(await opened.control.cancel(int(call.path["run"])))


async def clear(opened: Opened, call: Call) -> RunAnswer:
    body: ClearLock = call.body
    run = await opened.run(int(call.path["run"]))
    if run.state is not RunState.CLAIMED or run.lock is None:
        raise conflict(f"run {run.id} is {run.state}, and holds no lock key.")
    who = f"its lock was cleared by {call.actor}"
    why = f"{who}: {body.reason}" if body.reason else who
    return answer(await opened.control.clear(run, body.wait, why, SystemClock()))


_REFUSED = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
OPERATIONS = (
    Operation(
        "POST",
        "/runs",
        "enqueue",
        "Run a task once, without a schedule.",
        enqueue,
        EnqueueAnswer,
        (HTTPStatus.CREATED, HTTPStatus.OK),
        body=Enqueue,
        idempotent=True,
    ),
    Operation(
        "POST",
        "/runs/{run}/retry",
        "retryRun",
        "Run again what failed, was lost or was cancelled.",
        retry,
        RunAnswer,
        body=RetryRun,
        body_optional=True,
        problems=_REFUSED,
    ),
    Operation(
        "POST",
        "/runs/{run}/cancel",
        "cancelRun",
        "Cancel it: at once if it waits; else its node is told.",
        cancel,
        RunAnswer,
        problems=_REFUSED,
    ),
    Operation(
        "POST",
        "/runs/{run}/clear",
        "clearLock",
        "Free the lock key of a run that is stuck: it is cancelled, and its claim is ended.",
        clear,
        RunAnswer,
        body=ClearLock,
        body_optional=True,
        problems=_REFUSED,
    ),
)
