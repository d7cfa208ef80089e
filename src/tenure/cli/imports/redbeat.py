"""`tenure import redbeat`: the entries that RedBeat keeps in Redis."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo

import click

from tenure.backends.urls import REDIS, check_server, scheme_of, shown, without_passwords
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
from tenure.triggers import Trigger

_FIELDS = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")


@click.command()
@click.argument("url")
@click.option("--prefix", default="redbeat:", show_default=True, help="redbeat_key_prefix.")
@click.option("--tz", default="UTC", show_default=True, help="The application's `timezone`.")
@of_delivery
def redbeat(url: str, prefix: str, tz: str, delivery: Delivery) -> None:
    """Make schedules of RedBeat's entries, paused for review.

    URL is that of redbeat_redis_url. Nothing is written there. The schedules send the same tasks;
    --stub writes the scheduler that does. They are paused, so that nothing is sent twice: delete
    the entry in RedBeat, then resume its schedule.

    \b
    Examples:
      tenure import redbeat redis://localhost:6379/1 --tz Europe/Berlin --dry-run
      tenure import redbeat redis://localhost:6379/1 \\
        --write schedules.jsonl --stub schedule.py
    """
    zone, kinds = zone_of(tz), schedules()
    delivery.deliver([_entry(key, text, zone, kinds) for key, text in _read(url, prefix)], stub)


def _read(url: str, prefix: str) -> Iterator[tuple[str, str]]:
    """The definitions, by their keys."""
    import redis

    if scheme_of(url) not in REDIS:
        raise Failed(f"{shown(url)} is not the URL of a Redis. Write redis://host:6379/0.")
    check_server(url)
    try:
        with redis.Redis.from_url(url, decode_responses=True, socket_timeout=30) as line:
            # Its own keys, such as redbeat::lock, are no hashes.
            found = line.scan_iter(match=f"{_literal(prefix)}*", count=1000, _type="hash")
            for key in sorted(found):
                if (text := line.hget(key, "definition")) is not None:
                    yield key, str(text)
    except redis.RedisError as error:
        raise Failed(
            f"{shown(url)} cannot be read: {without_passwords(str(error)).rstrip('.')}."
        ) from None
    except (TypeError, ValueError):  # the driver's text has parts of the URL
        raise Failed(f"{shown(url)} cannot be read: redis-py does not take it.") from None


def _literal(prefix: str) -> str:
    return "".join(f"\\{letter}" if letter in "*?[]^\\" else letter for letter in prefix)


def _entry(key: str, text: str, zone: ZoneInfo, kinds: Any) -> Found:
    try:
        told = json.loads(text)
        name, task = str(told["name"]), str(told["task"])
        trigger = _trigger(name, told["schedule"], zone, kinds)
        arguments = told.get("args") or [], told.get("kwargs") or {}
        options, enabled = told.get("options") or {}, bool(told.get("enabled", True))
        return made(name, trigger, task, *arguments, options, enabled=enabled)
    except (TenureError, NotCarriedOver) as error:
        return Found(key, reason=str(error))
    except WRONG as error:
        return Found(key, reason=unreadable(error))


def _trigger(name: str, told: dict[str, Any], zone: ZoneInfo, kinds: Any) -> Trigger:
    kind = told.get("__type__")
    if kind == "interval":
        given = kinds.schedule(told["every"], relative=bool(told["relative"]))
    elif kind == "crontab":
        given = kinds.crontab(**{field: told[field] for field in _FIELDS})
    else:
        raise NotCarriedOver(
            f"a schedule of the kind {kind!r} is RedBeat's own: add it with rrule(…) or at(…)."
        )
    return trigger_of(name, given, zone)
