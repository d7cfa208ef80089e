"""`tenure import django-celery-beat`: its periodic tasks, as `manage.py dumpdata` writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from tenure.cli.errors import Failed
from tenure.cli.imports.candidates import Found
from tenure.cli.imports.celery_entries import (
    WRONG,
    NotCarriedOver,
    made,
    schedules,
    stub,
    trigger_of,
    unreadable,
    zone_of,
)
from tenure.cli.imports.delivery import Delivery, of_delivery
from tenure.errors import TenureError
from tenure.process.clock import SystemClock
from tenure.triggers import Trigger, at

_APP = "django_celery_beat."
_FIELDS = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")
_OPTIONS = ("queue", "exchange", "routing_key", "priority", "expires", "expire_seconds")
_KINDS = {
    "interval": "intervalschedule",
    "crontab": "crontabschedule",
    "clocked": "clockedschedule",
    "solar": "solarschedule",
}
Rows = dict[tuple[str, Any], Mapping[str, Any]]


@click.command()
@click.argument("path", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
@of_delivery
def django_celery_beat(path: str, delivery: Delivery) -> None:
    """Make schedules of django-celery-beat's periodic tasks, paused for review.

    FILE is what `manage.py dumpdata django_celery_beat` writes. The schedules send the same tasks;
    --stub writes the scheduler that does. They are paused, so that nothing is sent twice: disable
    the periodic task in the admin, then resume its schedule.

    \b
    Examples:
      manage.py dumpdata django_celery_beat > beat.json
      tenure import django-celery-beat beat.json --dry-run
      tenure import django-celery-beat beat.json \\
        --write schedules.jsonl --stub schedule.py
    """
    kinds, rows = schedules(), _read(Path(path))
    tasks = [fields for (model, _), fields in rows.items() if model == "periodictask"]
    if not tasks:
        raise Failed(f"{path} has no periodic task of django-celery-beat.")
    delivery.deliver([_entry(fields, rows, kinds) for fields in tasks], stub)


def _read(path: Path) -> Rows:
    """The rows of the dump, by their model and key."""
    try:
        dump = json.loads(path.read_text(encoding="utf-8"))
        return {
            (row["model"].removeprefix(_APP), row["pk"]): row["fields"]
            for row in dump
            if row["model"].startswith(_APP)
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Failed(
            f"{path} is not a dump as `manage.py dumpdata django_celery_beat` writes it:"
            f" {type(error).__name__}: {error}."
        ) from error


def _entry(fields: Mapping[str, Any], rows: Rows, kinds: Any) -> Found:
    name = str(fields.get("name"))
    try:
        trigger = _trigger(name, fields, rows, kinds)
        args, kwargs = (json.loads(fields.get(key) or "null") for key in ("args", "kwargs"))
        options = {option: fields.get(option) for option in _OPTIONS}
        options["headers"] = json.loads(fields.get("headers") or "{}")
        enabled = bool(fields["enabled"])
        task = str(fields["task"])
        return made(name, trigger, task, args or [], kwargs or {}, options, enabled=enabled)
    except (TenureError, NotCarriedOver) as error:
        return Found(name, reason=str(error))
    except WRONG as error:
        return Found(name, reason=unreadable(error))


def _trigger(name: str, fields: Mapping[str, Any], rows: Rows, kinds: Any) -> Trigger:
    kind = next(kind for kind in (*_KINDS, "") if not kind or fields.get(kind) is not None)
    if not kind:
        raise NotCarriedOver("it has no schedule.")
    row = rows.get((_KINDS[kind], fields[kind]))
    if row is None:
        raise NotCarriedOver(f"its {kind} schedule is not in the dump.")
    starts = fields.get("start_time")
    if starts is not None and datetime.fromisoformat(starts) > SystemClock().now():
        raise NotCarriedOver(f"its start_time, {starts}, has not come yet: import it then.")
    if kind == "clocked":
        return at(datetime.fromisoformat(row["clocked_time"]))
    if fields.get("one_off"):
        raise NotCarriedOver("it is a one_off, which ends after its next time: add it with at(…).")
    if kind == "solar":
        raise NotCarriedOver("it follows the sun, and Tenure's triggers follow the clock.")
    zone = zone_of(row.get("timezone") or "UTC")
    if kind == "crontab":
        return trigger_of(name, kinds.crontab(**{field: row[field] for field in _FIELDS}), zone)
    return trigger_of(name, kinds.schedule(timedelta(**{row["period"]: row["every"]})), zone)
