"""Runs, their attempts and their logs."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from msgspec import Meta

from tenure.model import PENDING, Attempt, AttemptOutcome, Kind, OnCrash, RunRecord, RunState
from tenure.web.api import cursors
from tenure.web.api.access import Opened
from tenure.web.api.problems import missing
from tenure.web.api.run_condition import HungAnswer, Waits, hung, why_it_waits
from tenure.web.api.table import Call, Operation
from tenure.web.api.values import (
    Answer,
    Asked,
    Cursor,
    Limit,
    Moment,
    Wanted,
    iso,
    iso_or_none,
    stored_json,
)

_NO_VALUE = ("", PENDING)


class RunAnswer(Answer):
    """A run."""

    id: int
    schedule: str | None
    uid: int | None
    task: str
    kind: Kind
    state: RunState
    nominal: Moment
    due: Moment
    created_at: Moment
    claimed_at: Moment | None
    finished_at: Moment | None
    attempt: int
    crashes: int
    failures: int
    claim: int
    retries: int
    node: str | None
    term: int
    lock: str | None
    tenant: str | None
    priority: int
    timeout: float | None
    on_crash: OnCrash
    kwargs: Any
    error: str | None
    unreadable: str | None
    cancel_requested_at: Moment | None
    result: Any
    result_kept: bool
    """false if it was not kept, or its function has not returned yet."""


class RunDetails(RunAnswer):
    """A run, and what is going on with it."""

    progress: float | None
    """From 0 to 1, of the present attempt; null if it has not said."""
    message: str | None
    waits: Waits | None
    hung: HungAnswer | None


class RunPage(Answer):
    """Runs, the newest first."""

    items: list[RunAnswer]
    next: str | None


class AttemptAnswer(Answer):
    """An attempt that did not succeed, or that has told something."""

    run: int
    attempt: int
    claim: int
    node: str
    started_at: Moment
    ended_at: Moment | None
    outcome: AttemptOutcome | None
    error: str | None
    progress: float | None
    message: str
    log_dropped: int
    reported_at: Moment | None


class Attempts(Answer):
    """The attempts of a run, the oldest first. /log has what they wrote."""

    items: list[AttemptAnswer]


class LogAnswer(Answer):
    """What an attempt wrote; null if none did."""

    run: int
    attempt: int | None
    log: str | None
    log_dropped: int | None
    """How many bytes are missing in its middle."""


class ListRuns(Asked):
    """Filters."""

    schedule: Wanted | None = None
    state: RunState | None = None
    task: Wanted | None = None
    tenant: Wanted | None = None
    older_than: Annotated[float, Meta(ge=0, le=1e9)] = 0.0
    """Made so many seconds ago, or earlier."""
    limit: Limit = 50
    cursor: Cursor | None = None


class ReadLog(Asked):
    """Of which attempt; without it, of the last that wrote something."""

    attempt: Annotated[int, Meta(ge=1, le=2_147_483_647)] | None = None


def answer(run: RunRecord) -> RunAnswer:
    return RunAnswer(
        id=run.id,
        schedule=run.schedule,
        uid=run.uid,
        task=run.task,
        kind=run.kind,
        state=run.state,
        nominal=iso(run.nominal),
        due=iso(run.due),
        created_at=iso(run.created_at),
        claimed_at=iso_or_none(run.claimed_at),
        finished_at=iso_or_none(run.finished_at),
        attempt=run.attempt,
        crashes=run.crashes,
        failures=run.failures,
        claim=run.claim,
        retries=run.retries,
        node=run.node,
        term=run.term,
        lock=run.lock,
        tenant=run.tenant,
        priority=run.priority,
        timeout=run.timeout,
        on_crash=run.on_crash,
        kwargs=stored_json(run.arguments),
        error=run.error,
        unreadable=run.unreadable,
        cancel_requested_at=iso_or_none(run.cancel_requested_at),
        result=None if run.result in _NO_VALUE else stored_json(run.result),
        result_kept=run.state is RunState.SUCCEEDED and run.result not in _NO_VALUE,
    )


def _attempt(attempt: Attempt) -> AttemptAnswer:
    return AttemptAnswer(
        run=attempt.run,
        attempt=attempt.attempt,
        claim=attempt.claim,
        node=attempt.node,
        started_at=iso(attempt.started_at),
        ended_at=iso_or_none(attempt.ended_at),
        outcome=attempt.outcome,
        error=attempt.error,
        progress=attempt.progress,
        message=attempt.message,
        log_dropped=attempt.log_dropped,
        reported_at=iso_or_none(attempt.reported_at),
    )


async def list_runs(opened: Opened, call: Call) -> RunPage:
    asked: ListRuns = call.query
    found = await opened.stores.runs.find(
        schedule=asked.schedule,
        state=asked.state,
        task=asked.task,
        tenant=asked.tenant,
        older_than=asked.older_than,
        limit=asked.limit + 1,
        below=cursors.number("runs", asked.cursor),
    )
    shown = found[: asked.limit]
    more = len(found) > asked.limit
    following = cursors.encode("runs", shown[-1].id) if more else None
    return RunPage(items=[answer(run) for run in shown], next=following)


async def get_run(opened: Opened, call: Call) -> RunDetails:
    run = await opened.run(int(call.path["run"]))
    told = (await opened.stores.runs.reported([run.id])).get(run.id)
    shown = answer(run)
    return RunDetails(
        **{name: getattr(shown, name) for name in shown.__struct_fields__},
        progress=None if told is None else told.progress,
        message=None if told is None else told.message,
        waits=await why_it_waits(opened, run),
        hung=await hung(opened, run),
    )


async def list_attempts(opened: Opened, call: Call) -> Attempts:
    run = await opened.run(int(call.path["run"]))
    return Attempts(items=[_attempt(each) for each in await opened.stores.runs.attempts(run.id)])


async def read_log(opened: Opened, call: Call) -> LogAnswer:
    asked: ReadLog = call.query
    run = await opened.run(int(call.path["run"]))
    told = await opened.stores.runs.attempts(run.id)
    if asked.attempt is None:
        chosen = next((each for each in reversed(told) if each.log), None)
    else:
        chosen = next((each for each in told if each.attempt == asked.attempt), None)
        if chosen is None and asked.attempt > run.attempt:
            raise missing(f"run {run.id} has no attempt {asked.attempt}, only {run.attempt}.")
    return LogAnswer(
        run=run.id,
        attempt=None if chosen is None else chosen.attempt,
        log=None if chosen is None else chosen.log,
        log_dropped=None if chosen is None else chosen.log_dropped,
    )


_MISSING = (HTTPStatus.NOT_FOUND,)
OPERATIONS = (
    Operation(
        "GET",
        "/runs",
        "listRuns",
        "List runs, the newest first.",
        list_runs,
        RunPage,
        query=ListRuns,
    ),
    Operation(
        "GET",
        "/runs/{run}",
        "getRun",
        "Show a run, and why it waits.",
        get_run,
        RunDetails,
        problems=_MISSING,
    ),
    Operation(
        "GET",
        "/runs/{run}/attempts",
        "listAttempts",
        "List its attempts that did not succeed, or have told something.",
        list_attempts,
        Attempts,
        problems=_MISSING,
    ),
    Operation(
        "GET",
        "/runs/{run}/log",
        "readLog",
        "Show what an attempt wrote.",
        read_log,
        LogAnswer,
        query=ReadLog,
        problems=_MISSING,
    ),
)
