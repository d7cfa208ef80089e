"""A run becomes a Celery message.

Its id follows from the occurrence. So whatever happens to the process that sends it, the message
that another sends in its place has the same id: results and logs show one task, and a worker can
tell that it has seen it (once.py).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid5

from kombu.exceptions import OperationalError

from tenure.errors import Retry
from tenure.model import Kind
from tenure.tasks.run import Run

OCCURRENCE = "tenure_occurrence"
"""The header that says which occurrence a message is of; those that others send do not have it."""
SENT = "tenure_sent"
"""The header that tells two messages of one occurrence apart."""
AGAIN = 1.0
"""Seconds until a broker that is away is tried again."""
_IDS = UUID("6b0c5b56-2f0e-5d0f-9a8f-0c6a1b7c9e41")


def send(
    app: Any,
    run: Run,
    namespace: str,
    task: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: Mapping[str, Any],
) -> str:
    """Send the message of this run; returns its id. `Retry` as long as the broker is away."""
    occurrence = _occurrence(app, run, namespace)
    task_id = str(uuid5(_IDS, occurrence))
    own = {OCCURRENCE: occurrence, SENT: secrets.token_hex(8)}
    headers = {**(options.get("headers") or {}), **own}
    options = {**options, "headers": headers, "task_id": task_id}
    known = app.tasks.get(task)
    try:
        if known is not None:
            known.apply_async(list(args), dict(kwargs), **options)
        else:
            app.send_task(task, list(args), dict(kwargs), **options)
    except (OperationalError, OSError) as error:
        raise Retry(f"the broker did not take the message: {error}", AGAIN) from error
    return task_id


def _occurrence(app: Any, run: Run, namespace: str) -> str:
    """As text, unlike that of any other, also of another application with the same broker."""
    told = [app.main, namespace, run.schedule or run.task, run.kind, run.nominal.isoformat()]
    # Two that were asked for at the same instant are told apart by their numbers.
    asked = run.kind in (Kind.MANUAL, Kind.ENQUEUED)
    return json.dumps([*told, run.id] if asked else told)
