"""What may be said about a schedule, by type and range: what a store would refuse, or could not be
read from it again, is refused where it is given."""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import Formatter
from typing import Any

from tenure.errors import InvalidSchedule
from tenure.payload import is_unicode
from tenure.printable import brief

NUMBER_MOST = 2_147_483_647
"""The greatest integer that PostgreSQL keeps in its column."""
SECONDS_MOST = 366 * 100 * 86_400
"""100 years, as of intervals: a date that far away can still be reckoned with."""
_FIELD = re.compile(r"[^\W\d][^.\[\]{}!:]*")
LOCK_MOST = 500
"""How many characters fit into the stores' indexes, whatever they are."""


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


def lock_key(name: str, value: object) -> str:
    """A lock key."""
    fits = isinstance(value, str) and 1 <= len(value) <= LOCK_MOST
    if not isinstance(value, str) or not fits or "\0" in value or not is_unicode(value):
        raise InvalidSchedule(
            f"{_given(name, value)} is not a lock key: that is a text of 1 to {LOCK_MOST}"
            " characters, such as 'user:{user}'. Without one the lock is the schedule's own."
        )
    return value


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
            f"{_given(name, value)}: in braces stands the name of a keyword argument and nothing"
            f" else, such as 'user:{{user}}'; {problem}. A brace itself is written twice."
        )
    return rule


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
