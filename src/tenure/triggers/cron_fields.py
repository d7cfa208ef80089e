"""A cron expression, field by field: what each means, and errors that point at the wrong one.

cronsim reads the fields. Each is given to it alone, the others being `*`, so that one knows which
is wrong, and so that the few that thousands of expressions share are read once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from cronsim import CronSim, CronSimError

from tenure.errors import InvalidTrigger
from tenure.printable import brief

NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
LONGEST = 500
_ANY_TIME = datetime(2000, 1, 1)  # noqa: DTZ001 - only the fields are read


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the six fields."""

    name: str
    attribute: str
    allowed: str


KINDS = (
    Kind("second", "seconds", "0-59"),
    Kind("minute", "minutes", "0-59"),
    Kind("hour", "hours", "0-23"),
    Kind("day of month", "days", "1-31, L (the last day), LW (the last weekday)"),
    Kind("month", "months", "1-12 or JAN-DEC"),
    Kind("day of week", "weekdays", "0-7 (0 and 7 are Sunday) or SUN-SAT, FRIL (the last Friday)"),
)
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_WEEKDAY = 5
LAST, LAST_WEEKDAY = CronSim.LAST, CronSim.LAST_WEEKDAY
Item = int | tuple[int, int]


def split(expression: str) -> list[str]:
    """The six fields of an expression, which may be a nickname."""
    text = _checked(expression)
    return given_fields(_nickname(text) if text.startswith("@") else expression)


def _checked(expression: str) -> str:
    if not isinstance(expression, str):
        raise InvalidTrigger(f"cron({brief(expression)}): give text, such as cron('0 7 * * *').")
    if len(expression) > LONGEST:
        raise InvalidTrigger(f"the cron expression is longer than {LONGEST} characters.")
    return expression.strip()


def given_fields(expression: str) -> list[str]:
    """The six fields as they are written, upper case; seconds are 0 if there are five."""
    fields = _checked(expression).upper().split()
    if len(fields) == 5:
        return ["0", *fields]
    if len(fields) != 6:
        raise InvalidTrigger(_wrong_count(expression, len(fields)))
    return fields


def read(expression: str, fields: list[str]) -> list[frozenset[Item]]:
    """What each of the six fields allows."""
    try:
        return [_read(number, text) for number, text in enumerate(fields)]
    except CronSimError:
        raise InvalidTrigger(_point(expression, fields)) from None


@lru_cache(maxsize=4096)
def _read(number: int, text: str) -> frozenset[Item]:
    alone = ["*"] * 6
    alone[number] = ",".join(_plain(number, term) for term in text.split(","))
    return frozenset(getattr(CronSim(" ".join(alone), _ANY_TIME), KINDS[number].attribute))


def _plain(number: int, term: str) -> str:
    """The same in the forms that cronsim reads as they are meant."""
    if number == _WEEKDAY and term[-1:] == "L" and term[:-1] in _DAYS:
        return f"{_DAYS.index(term[:-1])}L"  # it wants a number before the L
    stepped = re.fullmatch(r"(\w+)-(\w+)/0*[1-9]\d*", term, re.ASCII)
    if stepped and _read(number, stepped[1]) == _read(number, stepped[2]):
        return f"{stepped[1]}-{stepped[2]}"  # to it, 6-6/6 is 6/6, a range without an end
    return term


def _nickname(text: str) -> str:
    found = NICKNAMES.get(text.lower())
    if found is None:
        hint = ""
        if text.lower() == "@reboot":
            hint = " There is no @reboot: run what belongs to the start when your program starts."
        elif text.lower().startswith("@every"):
            hint = " For intervals there is every(minutes=5)."
        raise InvalidTrigger(
            f"cron({text!r}) is not known; there are {', '.join(NICKNAMES)}.{hint}"
        )
    return found


def _wrong_count(expression: str, count: int) -> str:
    hint = ""
    if count == 7:
        hint = " A year as the seventh field is not known: use start= and end=."
    elif not count:
        hint = " For example: cron('0 7 * * *'), every day at 07:00."
    return (
        f"cron({expression!r}) has {count} field{'s' * (count != 1)}; there must be 5 (minute,"
        f" hour, day of month, month, day of week), or 6 with the second first.{hint}"
    )


def _point(expression: str, fields: list[str]) -> str:
    """The message for the first wrong field, with the wrong part of it marked: >24<."""
    number = next(n for n, text in enumerate(fields) if not _readable(n, text))
    kind, parts = KINDS[number], fields[number].split(",")
    wrong = next((n for n, part in enumerate(parts) if not _readable(number, part)), None)
    if wrong is None:
        parts, wrong = [fields[number]], 0
    part = parts[wrong]
    shown = expression.split()
    marked = ",".join([*parts[:wrong], f">{part}<", *parts[wrong + 1 :]])
    shown[number - (6 - len(shown))] = marked
    return (
        f"cron: the {kind.name} is wrong: {part!r} in {' '.join(shown)}. Allowed: {kind.allowed};"
        f" *, lists (1,15), ranges (1-5), steps (*/5).{_hint(number, part)}"
    )


def _readable(number: int, text: str) -> bool:
    try:
        _read(number, text)
    except CronSimError:
        return False
    return bool(text)


_HINTS: tuple[tuple[str, set[int], str], ...] = (
    (r"H", {0, 1, 2, 3, 4, 5}, "There is no H: jitter= spreads schedules over a stretch of time."),
    (r"\?", {3, 5}, "Write * instead of ?."),
    (r"\d+W", {3}, "The nearest weekday (15W) is not known; LW is the last weekday of the month."),
    (r"L-\d+", {3}, "Days before the last one (L-3) are not known."),
    (r"L", {5}, "L needs a day: FRIL is the last Friday."),
    (r"\d+#[06-9]\d*", {5}, "After # comes 1 to 5: 1#2 is the second Monday."),
    (r".*/0*", {0, 1, 2, 3, 4, 5}, "A step is at least 1: */5."),
    (r"[A-Z]{4,}", {4, 5}, "Names have three letters: JAN, MON."),
    (r"24", {2}, "Midnight is hour 0."),
    (r"60", {0, 1}, "The full minute or hour is 0."),
    (r"\d{4}", {3, 4, 5}, "There is no field for the year: use start= and end=."),
)


def _hint(number: int, part: str) -> str:
    for pattern, numbers, hint in _HINTS:
        if number in numbers and re.match(pattern + r"(\W|$)", part):
            return f" {hint}"
    if (found := re.fullmatch(r"(\w+)-(\w+)(/.*)?", part)) and all(
        _readable(number, bound) for bound in found.group(1, 2)
    ):
        return " A range goes up: write two, such as 22-23,0-5."
    return ""
