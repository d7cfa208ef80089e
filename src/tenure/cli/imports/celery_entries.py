"""What the importers of Celery's schedulers share: an entry of theirs becomes a schedule that sends
its task (`tenure.contrib.celery.include`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from tenure.cli.errors import Failed
from tenure.cli.imports.candidates import FOR_REVIEW, Found
from tenure.errors import InvalidTrigger
from tenure.triggers import Trigger, zones

DISABLED = "it was disabled"
WRONG = (KeyError, TypeError, ValueError, AttributeError)
"""What comes of entries that are not as the package writes them."""
_OWN = "celery."
_STUB = '''\
"""A Tenure scheduler that sends the tasks of your Celery application."""

from proj import app  # your own

from tenure import Scheduler
from tenure.contrib.celery import include

scheduler = Scheduler()
include(scheduler, app)
'''


def stub(found: Sequence[Found]) -> str:
    return _STUB


class NotCarriedOver(Exception):
    """Why an entry cannot become a schedule, as a sentence."""


def unreadable(error: Exception) -> str:
    """The reason for an entry that is not as the package writes it."""
    if isinstance(error, KeyError):
        return f"its field {error} is missing."
    return f"it is not as its package writes it: {error}."


def made(
    name: str,
    trigger: Trigger,
    task: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: Mapping[str, Any],
    *,
    enabled: bool,
) -> Found:
    """The schedule of one entry, or why there is none."""
    if task.startswith(_OWN):
        return Found(name, reason=f"{task} is Celery's own: leave it to a beat.")
    if args:
        return Found(
            name,
            reason=f"it has positional arguments, {list(args)!r}, and schedules have keyword"
            " arguments: give them by name in the source first.",
        )
    given = {option: value for option, value in options.items() if value not in (None, {}, "")}
    notes = [f"its option {key}={value!r} is left out" for key, value in given.items()]
    if given:
        notes.append("say with task_routes, or where the task is declared, how it is sent")
    entry = {
        "name": name,
        "trigger": trigger,
        "task": task,
        "kwargs": dict(kwargs),
        "overlap": "allow",
        "paused": FOR_REVIEW if enabled else DISABLED,
    }
    return Found(name, entry, notes=tuple(notes))


def zone_of(tz: str) -> ZoneInfo:
    try:
        return ZoneInfo(zones.name(tz) or "UTC")
    except InvalidTrigger as error:
        raise Failed(str(error)) from error


def schedules() -> Any:
    """Celery's own classes of schedules: what they mean is asked of them."""
    try:
        from celery import schedules
    except ImportError as error:
        raise Failed(
            f"this needs {error.name}: install the extra, pip install 'tenure[celery]'."
        ) from None
    return schedules


def trigger_of(name: str, schedule: Any, zone: ZoneInfo) -> Trigger:
    from tenure.contrib.celery.triggers import trigger_of

    schedule.tz = zone
    return trigger_of(name, schedule)
