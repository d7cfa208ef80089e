"""How a run is shown."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tenure.cli.output import exactly, in_seconds, iso, loaded
from tenure.model import PENDING, RunRecord, RunState
from tenure.printable import exception_line
from tenure.words import lasted, span

_NO_VALUE = {"": "not kept", PENDING: "not known yet: its function goes on, or its node ended"}


def run_json(run: RunRecord) -> dict[str, Any]:
    return {
        "id": run.id,
        "schedule": run.schedule,
        "uid": run.uid,
        "task": run.task,
        "kind": run.kind,
        "state": run.state,
        "nominal": iso(run.nominal),
        "due": iso(run.due),
        "created_at": iso(run.created_at),
        "claimed_at": iso(run.claimed_at),
        "finished_at": iso(run.finished_at),
        "attempt": run.attempt,
        "crashes": run.crashes,
        "failures": run.failures,
        "claim": run.claim,
        "retries": run.retries,
        "node": run.node,
        "term": run.term,
        "lock": run.lock,
        "tenant": run.tenant,
        "priority": run.priority,
        "timeout": run.timeout,
        "on_crash": run.on_crash,
        "kwargs": loaded(run.arguments),
        "error": run.error,
        "unreadable": run.unreadable,
        "traceparent": run.traceparent,
        "cancel_requested_at": iso(run.cancel_requested_at),
        "result": loaded(run.result) if run.result and run.result not in _NO_VALUE else None,
        "result_kept": run.state is RunState.SUCCEEDED and run.result not in _NO_VALUE,
    }


def run_facts(run: RunRecord, now: datetime, *, hung: bool = False) -> list[tuple[str, object]]:
    late = (run.claimed_at - run.due).total_seconds() if run.claimed_at else None
    return [
        ("Run", run.id),
        ("Schedule", run.schedule),
        ("Task", run.task if run.task != run.schedule else None),
        ("Kind", run.kind),
        ("State", "hung" if hung else run.state),
        ("Nominal", exactly(run.nominal, now)),
        ("Due", exactly(run.due, now) if run.due != run.nominal else None),
        ("Claimed", exactly(run.claimed_at, now) if run.claimed_at else None),
        ("Late by", span(late) if late is not None and late >= 0 else None),
        ("Finished", exactly(run.finished_at, now) if run.finished_at else None),
        ("Took", took(run)),
        ("Cancel asked", _moment(run.cancel_requested_at, now)),
        ("Attempt", f"{run.attempt} of {run.retries + 1}" if run.retries else run.attempt),
        ("Crashes", run.crashes or None),
        ("Node", run.node),
        ("Fired under", f"term {run.term}" if run.term else None),
        ("Lock key", run.lock),
        ("Tenant", run.tenant),
        ("Timeout", in_seconds(run.timeout)),
        ("Result", _result(run.result)),
        ("Arguments", run.arguments if run.arguments != "{}" else None),
    ]


def summary(error: str | None) -> str | None:
    """What it was, without the places in the code."""
    what = exception_line(error or "")
    return (what if len(what) <= 80 else what[:79] + "…") or None


def _moment(moment: datetime | None, now: datetime) -> str | None:
    return None if moment is None else exactly(moment, now)


def took(run: RunRecord) -> str | None:
    if run.claimed_at is None or run.finished_at is None:
        return None
    return lasted(max(0.0, (run.finished_at - run.claimed_at).total_seconds()))


def _result(text: str | None) -> str | None:
    return None if text is None else _NO_VALUE.get(text, text)
