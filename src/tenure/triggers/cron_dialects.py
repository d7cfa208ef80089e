"""Cron expressions that were written for APScheduler or Celery, with the meaning they have there.

The fields stand in the order of a crontab. In both dialects a day must match the day of month *and*
the day of week. APScheduler's weekdays begin with Monday as 0; Celery's ranges may go past the end
of a field and continue at its beginning: 22-2, fri-mon.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tenure.errors import InvalidTrigger
from tenure.printable import brief
from tenure.triggers.cron_fields import KINDS, LAST, Item, given_fields

Dialect = Literal["apscheduler", "celery"]
DIALECTS = ("apscheduler", "celery")

_RANGES = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
_DAY, _MONTH, _WEEKDAY = 3, 4, 5
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_FROM_MONDAY = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_FROM_SUNDAY = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_TERM = re.compile(r"(?:(\*)|(\w+)(?:-(\w+))?)(?:/(\d+))?", re.ASCII)
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)


class _WrongTerm(ValueError):
    """A part of a field that the dialect does not have; says why."""


@dataclass(frozen=True, slots=True)
class Fields:
    """What six fields allow, and what a dialect makes of a change of the clocks."""

    allowed: tuple[frozenset[Item], ...]
    gap: str
    fold: str


def read_dialect(expression: str, dialect: str) -> Fields:
    """The fields of an expression in the words of a dialect."""
    if dialect not in DIALECTS:
        raise InvalidTrigger(
            f"dialect={brief(dialect)} is not known; choose from"
            f" {', '.join(map(repr, DIALECTS))}, or leave it out for cron's own."
        )
    fields = given_fields(expression)
    allowed = tuple(_field(expression, dialect, number, text) for number, text in enumerate(fields))
    # Both walk along the real clock hour by hour if every hour counts, so they pass over a gap. A
    # fixed hour that is skipped they still run, later. Celery's second pass of an hour is past.
    every_hour = len(allowed[2]) == 24
    return Fields(
        allowed, "skip" if every_hour else "after", "both" if dialect == "apscheduler" else "first"
    )


def _field(expression: str, dialect: str, number: int, text: str) -> frozenset[Item]:
    try:
        return _read(dialect, number, text)
    except _WrongTerm as error:
        low, high = _RANGES[number]
        raise InvalidTrigger(
            f"cron({expression!r}, dialect={dialect!r}): the {KINDS[number].name} is wrong:"
            f" {error}. Allowed: {low}-{high}{_names_allowed(dialect, number)}; *, lists (1,15),"
            " ranges (1-5), steps (*/5, 1-30/5)."
        ) from None


@lru_cache(maxsize=4096)
def _read(dialect: str, number: int, text: str) -> frozenset[Item]:
    term = _TERMS[dialect]
    ours = 1 if number == _WEEKDAY and dialect == "apscheduler" else 0  # Monday is 1 in cron
    return frozenset(item + ours for part in text.split(",") for item in term(number, part))


def _apscheduler(number: int, part: str) -> list[int]:
    if number == _DAY and part == "LAST":
        return [LAST]
    low, high = _RANGES[number]
    star, first, last, step = _taken_apart(part)
    if star:
        return list(range(low, high + 1, step or 1))
    begin = _value(number, first, _FROM_MONDAY)
    if step is not None and not _NUMBER.fullmatch(first):
        raise _WrongTerm(f"{part!r} has a step after a name, which APScheduler leaves out")
    if last is None:
        return [begin] if step is None else list(range(begin, high + 1, step))
    end = _value(number, last, _FROM_MONDAY)
    if end < begin:
        raise _WrongTerm(f"{part!r} is a range that goes down")
    return list(range(begin, end + 1, step or 1))


def _celery(number: int, part: str) -> list[int]:
    low, high = _RANGES[number]
    star, first, last, step = _taken_apart(part)
    if star:
        return list(range(low, high + 1))[:: step or 1]
    begin = _value(number, first, _FROM_SUNDAY, prefix=True)
    if last is None:
        if step is not None:
            raise _WrongTerm(f"{part!r} has a step after one number")
        return [begin]
    end = _value(number, last, _FROM_SUNDAY, prefix=True)
    around = [*range(begin, high + 1), *range(low, end + 1)]
    return (list(range(begin, end + 1)) if begin <= end else around)[:: step or 1]


_TERMS: dict[str, Callable[[int, str], list[int]]] = {
    "apscheduler": _apscheduler,
    "celery": _celery,
}


def _taken_apart(part: str) -> tuple[bool, str, str | None, int | None]:
    found = _TERM.fullmatch(part)
    if found is None:
        raise _WrongTerm(f"{part!r} is not one of its forms")
    star, first, last, step = found.groups()
    if step is not None and not 1 <= (count := int(step[:9])) <= 99_999:
        raise _WrongTerm(f"{part!r} has the step {count}")
    return star is not None, first or "", last, None if step is None else int(step)


def _value(number: int, word: str, days: tuple[str, ...], *, prefix: bool = False) -> int:
    """A number, or a name that stands for one; with `prefix`, three letters of it decide."""
    low, high = _RANGES[number]
    if _NUMBER.fullmatch(word):
        value = int(word)
    else:
        names = {_MONTH: _MONTHS, _WEEKDAY: days}.get(number, ())
        name = word[:3] if prefix and word.isalpha() else word
        if name not in names:
            raise _WrongTerm(f"{word!r} is not a number{' or a name' if names else ''}")
        value = names.index(name) + low
    if not low <= value <= high:
        raise _WrongTerm(f"{word!r} is not within {low}-{high}")
    return value


def _names_allowed(dialect: str, number: int) -> str:
    if number == _MONTH:
        return " or JAN-DEC"
    if number == _WEEKDAY:
        return " (0 is Monday) or MON-SUN" if dialect == "apscheduler" else " (0 is Sunday)"
    return ", LAST" if number == _DAY and dialect == "apscheduler" else ""
