"""The run that is added because another has failed, or is lost."""

from __future__ import annotations

import json
from typing import Any

from tenure.model import FAILURE_KEY, NewRun, OnFailure, RunRecord

ERROR_SHOWN = 2_000
"""So many characters of the error are passed on, its end."""


def failure_run(run: RunRecord, rule: OnFailure) -> NewRun:
    """The run that is to be added for this one."""
    return NewRun(
        task=rule.task,
        key=f"{FAILURE_KEY}{run.id}:{run.claim}",
        kwargs=json.dumps({"failure": failure_of(run)}),
        tenant=run.tenant,
        lock=rule.lock,
        priority=rule.priority,
        timeout=rule.timeout,
        retries=rule.retries,
        on_crash=rule.on_crash,
    )


def failure_of(run: RunRecord) -> dict[str, Any]:
    """What the task is told about it."""
    return {
        "run": run.id,
        "task": run.task,
        "schedule": run.schedule,
        "nominal": run.nominal.isoformat(timespec="microseconds"),
        "state": str(run.state),
        "attempts": run.attempt,
        "error": (run.error or "")[-ERROR_SHOWN:],
    }
