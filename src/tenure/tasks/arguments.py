"""What may be said about a schedule or a run, by type and range: what a store would refuse, or
could not be read from it again, is refused where it is given."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from string import Formatter
from typing import Any

from tenure.errors import ConfigError, InvalidSchedule
from tenure.model import FAILURE_KEY, OWN_LOCK, SECONDS_MOST, RunRecord
from tenure.printable import brief
from tenure.tasks.payload import is_unicode

NUMBER_MOST = 2_147_483_647
"""The greatest integer that PostgreSQL keeps in its column."""
_FIELD = re.compile(r"[^\W\d][^.\[\]{}!:]*")
LOCK_MOST = 500
"""How many characters fit into the stores' indexes, whatever they are."""
ID_MOST = 2**63 - 1
"""The greatest number that a run can have."""
KEY_MOST = 200
"""The same of idempotency keys, which stand there beside the name of a task."""
LOCK_NAMES = ("schedule", "task", "tenant")
"""What a lock key can name besides keyword arguments, which go before them."""
LOCK_TOO_LONG = "its lock key has"
"""How the reason begins for which a longer one is not fired."""


def check_name(name: object, what: str) -> str:
    """The name of a task, a schedule, a queue or a tenant."""
    if not isinstance(name, str) or not name or len(name) > 200 or not name.isprintable():
        raise InvalidSchedule(
            f"a {what}'s name is 1 to 200 printable characters, not {brief(name)}."
        )
    return name


def whole(name: str, value: object, least: int, most: int, otherwise: str = "") -> int:
    """A whole number from `least` to `most`; `otherwise` says what to do for others."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidSchedule(f"{_given(name, value)} is not a whole number, such as {name}=3.")
    if not least <= value <= most:
        text = f"{_given(name, value)} must be between {least:,} and {most:,}"
        raise InvalidSchedule(f"{text}{otherwise}.")
    return value


def seconds(name: str, value: object, *, zero: bool = False, otherwise: str = "") -> float:
    """A number of seconds; 0 only if `zero`."""
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        raise InvalidSchedule(f"{_given(name, value)} is not a number of seconds, such as 30.")
    if value > SECONDS_MOST or value < 0 or (value == 0 and not zero):
        least = "must not be negative" if zero else "must be greater than 0 seconds"
        text = f"{_given(name, value)} {least}, and at most {SECONDS_MOST:,} (100 years)"
        raise InvalidSchedule(f"{text}{otherwise}.")
    return value


def lock_too_long(lock: str) -> str:
    """Why a schedule with this lock key is not fired, and what to do."""
    return (
        f"{LOCK_TOO_LONG} {len(lock):,} characters, and at most {LOCK_MOST} fit into an index."
        " Mend it: update(lock=…)."
    )


def lock_key(name: str, value: object) -> str:
    """A lock key."""
    fits = isinstance(value, str) and 1 <= len(value) <= LOCK_MOST
    if not isinstance(value, str) or not fits or "\0" in value or not is_unicode(value):
        raise InvalidSchedule(
            f"{_given(name, value)} is not a lock key: that is a text of 1 to {LOCK_MOST}"
            " characters, such as 'user:{user}'. Leave it out if you need none."
        )
    if value.startswith(OWN_LOCK):
        raise InvalidSchedule(
            f"{_given(name, value)}: keys that begin with {OWN_LOCK!r} are reserved, because"
            " a run with one could hold up another schedule. Choose another beginning. Without a"
            " lock a schedule has a key of its own."
        )
    return value


def run_number(run: object) -> int:
    """The number of a run that is given by itself, or by its number."""
    number = run.id if isinstance(run, RunRecord) else run
    if not isinstance(number, int) or isinstance(number, bool) or abs(number) > ID_MOST:
        raise ConfigError(
            f"{brief(run)} is neither a run, as `enqueue` and `runs` return it, nor the number of"
            " one, such as 1042."
        )
    return number


def idempotency_key(value: object) -> str:
    """A key under which a run is asked for once."""
    fits = isinstance(value, str) and 1 <= len(value) <= KEY_MOST
    if not isinstance(value, str) or not fits or "\0" in value or not is_unicode(value):
        raise InvalidSchedule(
            f"{_given('key', value)} is not an idempotency key: that is a text of 1 to {KEY_MOST}"
            " characters, such as 'order-1042'."
        )
    if value.startswith(FAILURE_KEY):
        raise InvalidSchedule(
            f"{_given('key', value)}: keys that begin with {FAILURE_KEY!r} are reserved for the"
            " runs that on_failure adds. Choose another."
        )
    return value


def nominal_time(at: object, delay: object) -> tuple[datetime | None, float]:
    """When a run is asked for: at a moment, or so many seconds from now."""
    if at is None:
        return None, 0.0 if delay is None else float(seconds("delay", delay, zero=True))
    if delay is not None:
        raise InvalidSchedule(f"at={at!s} and delay={brief(delay)} were both given: give one.")
    if not isinstance(at, datetime) or at.tzinfo is None or at.utcoffset() is None:
        raise InvalidSchedule(
            f"{_given('at', at)} must be a datetime with a time zone, such as"
            " datetime(2026, 1, 31, 7, tzinfo=UTC)."
        )
    try:
        return at.astimezone(UTC), 0.0
    except OverflowError as error:
        raise InvalidSchedule(f"at={at!s} is beyond the calendar.") from error


def lock_rule(name: str, value: object) -> str:
    """A lock key in which names of keyword arguments, in braces, are still to be filled in.

    Nothing but names: a width would make a key of any length, and an attribute tell anything.
    """
    rule, problem = lock_key(name, value), ""
    try:
        for _, field, spec, conversion in Formatter().parse(rule):
            if field is not None and (spec or conversion or not _FIELD.fullmatch(field)):
                inner = field + (f"!{conversion}" if conversion else "")
                problem = f"{{{inner}{f':{spec}' if spec else ''}}} is not one"
    except ValueError as error:
        problem = str(error)
    if problem:
        raise InvalidSchedule(
            f"{_given(name, value)}: braces may contain only the name of a keyword argument,"
            f" such as 'user:{{user}}'; {problem}. Write a literal brace twice."
        )
    return rule


def lock_names(rule: str) -> list[str]:
    """The names that are to be filled in."""
    return [field for _, field, _, _ in Formatter().parse(rule) if field is not None]


def keywords(value: object) -> Mapping[str, Any]:
    """Keyword arguments for a task; None stands for none."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidSchedule(
            f"{_given('kwargs', value)} is not a dict of keyword arguments, such as"
            " kwargs={'user': 7}."
        )
    return value


def _given(name: str, value: object) -> str:
    return f"{name}={brief(value)}"
