"""The text of a recurrence rule (RFC 5545), read part by part, with errors that name the part."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from tenure.errors import InvalidTrigger
from tenure.printable import brief

FREQS = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
YEARLY, MONTHLY, WEEKLY, DAILY, HOURLY, MINUTELY, SECONDLY = range(7)
MOST_COUNTED = 100_000
LONGEST = 2_000
# Part: the least and the greatest number, whether it may count from the end, and the frequencies.
_LISTS: dict[str, tuple[int, int, bool, set[int]]] = {
    "BYSECOND": (0, 59, False, set(range(7))),
    "BYMINUTE": (0, 59, False, set(range(7))),
    "BYHOUR": (0, 23, False, set(range(7))),
    "BYMONTHDAY": (1, 31, True, set(range(7)) - {WEEKLY}),
    "BYYEARDAY": (1, 366, True, {YEARLY, HOURLY, MINUTELY, SECONDLY}),
    "BYWEEKNO": (1, 53, True, {YEARLY}),
    "BYMONTH": (1, 12, False, set(range(7))),
    "BYSETPOS": (1, 366, True, set(range(7))),
}
_OTHERS = ("FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY")
_DAY = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)")
_TIME = re.compile(r"(\d{4})(\d{2})(\d{2})(?:T(\d{2})(\d{2})(\d{2})(Z?))?")
_LINE = re.compile(r"\s*(RRULE|DTSTART|EXDATE|RDATE|EXRULE)[:;]", re.IGNORECASE)
_BARE, _OTHER = (re.compile(rf"\s*({word})", re.IGNORECASE) for word in ("FREQ=", "DTSTART|EXDATE"))


@dataclass(frozen=True, slots=True)
class Parts:
    """A rule, checked. Lists are sorted as given; days are (weekday, which) with 0 for all."""

    freq: int
    interval: int = 1
    count: int | None = None
    wkst: int = 0
    days: tuple[tuple[int, int], ...] = ()
    lists: dict[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class Text:
    """What a whole text says: the rule, and what may stand in lines of its own beside it."""

    rule: str = ""
    tz: str | None = None
    start: datetime | None = None
    end: datetime | date | None = None
    except_dates: list[datetime | date] = field(default_factory=list)


def read(text: str) -> Text:
    """From a rule alone, or from the lines of a calendar: DTSTART, RRULE, EXDATE."""
    if not isinstance(text, str):
        raise InvalidTrigger(
            f"rrule({brief(text)}): give text, such as rrule('FREQ=DAILY;BYHOUR=7')."
        )
    text = _unfolded(text)
    result, upper = Text(), text.upper()
    for line in filter(None, map(str.strip, upper.splitlines())):
        name, _, value = line.rpartition(":")
        name, *parameters = name.split(";") if ":" in line else ["RRULE"]
        if name == "RRULE":
            if result.rule:
                raise InvalidTrigger("rrule: there is more than one rule; make two schedules.")
            result.rule = value
        elif name in ("DTSTART", "EXDATE"):
            tz = _zone(text, upper, parameters)
            if tz is not None and result.tz not in (None, tz):
                raise InvalidTrigger(f"rrule: two time zones, {result.tz!r} and {tz!r}.")
            result.tz = tz or result.tz
            times = [_time(name, part) for part in value.split(",")]
            if name == "EXDATE":
                result.except_dates += times
            else:
                result.start = _datetime(times[0])
        else:
            raise InvalidTrigger(
                f"rrule: the line {line[:60]!r} is not known; there are RRULE, DTSTART and EXDATE."
            )
    _take_until(result)
    return result


def _unfolded(text: str) -> str:
    """Lines that begin with white space continue the one before, unless they are just indented."""
    lines: list[str] = []
    for line in text.splitlines():
        begins = _LINE.match(line) or (lines and _BARE.match(line) and _OTHER.match(lines[-1]))
        if lines and line[:1].isspace() and not begins:
            lines[-1] += line.strip()
        else:
            lines.append(line.rstrip())
    return "\n".join(lines)


def _zone(text: str, upper: str, parameters: list[str]) -> str | None:
    """The zone in its own spelling: the lines were read in upper case."""
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key == "TZID":
            place = upper.index(value)
            return text[place : place + len(value)].strip('"')
    return None


def _take_until(result: Text) -> None:
    """UNTIL becomes the trigger's end, so that there is one notion of it."""
    kept = []
    for part in result.rule.split(";"):
        key, _, value = part.partition("=")
        if key == "UNTIL":
            result.end = _time("UNTIL", value)
        elif part:
            kept.append(part)
    result.rule = ";".join(kept)


def parse(rule: str) -> Parts:
    """The parts of a rule without UNTIL."""
    if len(rule) > LONGEST:
        raise InvalidTrigger(f"rrule: the rule is longer than {LONGEST} characters.")
    given: dict[str, str] = {}
    for part in rule.split(";"):
        key, equals, value = part.partition("=")
        if not equals or not value:
            raise InvalidTrigger(f"rrule: {part!r} is not of the form NAME=VALUE.")
        if key not in _LISTS and key not in _OTHERS:
            known = ", ".join([*_OTHERS, *_LISTS])
            raise InvalidTrigger(f"rrule: {key!r} is not known; there are {known}.")
        if key in given:
            raise InvalidTrigger(f"rrule: {key} is given twice.")
        given[key] = value
    if given.get("FREQ") not in FREQS:
        said = f"FREQ={given['FREQ']}" if "FREQ" in given else "FREQ is missing"
        raise InvalidTrigger(f"rrule: {said}; it is one of {', '.join(FREQS)}.")
    freq = FREQS.index(given["FREQ"])
    return Parts(
        freq=freq,
        interval=_number("INTERVAL", given.get("INTERVAL", "1"), 1, 1_000_000),
        count=_number("COUNT", given["COUNT"], 1, MOST_COUNTED) if "COUNT" in given else None,
        wkst=_weekday(given.get("WKST", "MO")),
        days=_days(freq, given),
        lists={key: _list(freq, key, given) for key in _LISTS if key in given},
    )


def _list(freq: int, key: str, given: dict[str, str]) -> tuple[int, ...]:
    low, high, from_end, allowed = _LISTS[key]
    if freq not in allowed:
        raise InvalidTrigger(f"rrule: {key} cannot be combined with FREQ={FREQS[freq]}.")
    if key == "BYSETPOS" and not any(k.startswith("BY") and k != key for k in given):
        raise InvalidTrigger("rrule: BYSETPOS needs another BY… part to choose from.")
    numbers = []
    for text in given[key].split(","):
        number = _number(key, text, -high if from_end else low, high)
        if from_end and number == 0:
            raise InvalidTrigger(f"rrule: {key}=0 is not allowed: it counts from 1 or from -1.")
        numbers.append(number)
    return tuple(numbers)


def _days(freq: int, given: dict[str, str]) -> tuple[tuple[int, int], ...]:
    days = []
    for text in given["BYDAY"].split(",") if "BYDAY" in given else ():
        found = _DAY.fullmatch(text)
        if found is None:
            raise InvalidTrigger(f"rrule: BYDAY={text}: write MO … SU, 1MO or -1FR, for example.")
        which = int(found[1] or 0)
        if found[1] and (not 1 <= abs(which) <= 53):
            raise InvalidTrigger(f"rrule: BYDAY={text}: the number is from 1 to 53, or negative.")
        if abs(which) > 5 and (freq == MONTHLY or "BYMONTH" in given):
            raise InvalidTrigger(f"rrule: BYDAY={text}: a month has no more than 5 of a weekday.")
        if which and (freq > MONTHLY or "BYWEEKNO" in given):
            raise InvalidTrigger(
                f"rrule: BYDAY={text}: a numbered day goes with MONTHLY, or with YEARLY without"
                " BYWEEKNO."
            )
        days.append((DAYS.index(found[2]), which))
    return tuple(days)


def _weekday(text: str) -> int:
    if text not in DAYS:
        raise InvalidTrigger(f"rrule: WKST={text}: it is one of {', '.join(DAYS)}.")
    return DAYS.index(text)


def _number(key: str, text: str, low: int, high: int) -> int:
    number = int(text) if re.fullmatch(r"[+-]?\d{1,9}", text, re.ASCII) else None
    if number is None or not low <= number <= high:
        raise InvalidTrigger(f"rrule: {key}={text}: it must be a number from {low} to {high}.")
    return number


def _time(key: str, text: str) -> datetime | date:
    found = _TIME.fullmatch(text)
    try:
        if found is None:
            raise ValueError("unknown format")
        numbers = [int(group) for group in found.groups()[:6] if group]
        if len(numbers) == 3:
            return date(*numbers)
        zone = UTC if found[7] else None
        year, month, day, hour, minute, second = numbers
        return datetime(year, month, day, hour, minute, second, tzinfo=zone)
    except ValueError as error:
        raise InvalidTrigger(
            f"rrule: {key} {text} is not a time ({error}): write 20260131, 20260131T070000 or, in"
            " UTC, 20260131T070000Z."
        ) from error


def _datetime(day: datetime | date) -> datetime:
    if isinstance(day, datetime):
        return day
    return datetime(day.year, day.month, day.day)  # noqa: DTZ001 - a local time
