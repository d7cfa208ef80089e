"""Triggers written as one line of text, for command lines, forms and configuration files.

every 5m                              every 2 months
0 7 * * MON-FRI                       @daily
cron 0 7 * * MON-FRI                  cron @daily
at 2026-12-31T18:00                   rrule FREQ=MONTHLY;BYDAY=-1FR

Options follow as name=value, under their names in Python: tz=Europe/Berlin start=2026-01-01
end=2026-12-31 except_dates=2026-12-24,2026-12-25 jitter=30s gap=skip fold=both; for cron also
dialect=apscheduler, for every immediately=yes, for at keep=no. The stored form, a JSON object, is
understood as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tenure.errors import InvalidTrigger
from tenure.printable import brief
from tenure.triggers.at import at
from tenure.triggers.base import Trigger
from tenure.triggers.cron import cron
from tenure.triggers.every import every
from tenure.triggers.rrule import rrule
from tenure.triggers.stored_form import load

_OPTION = re.compile(r"(tz|start|end|except_dates|jitter|gap|fold|dialect|immediately|keep)=(\S*)")
_UNITS = {
    "seconds": ("s", "sec", "secs", "second", "seconds"),
    "minutes": ("m", "min", "mins", "minute", "minutes"),
    "hours": ("h", "hour", "hours"),
    "days": ("d", "day", "days"),
    "weeks": ("w", "week", "weeks"),
    "months": ("month", "months"),
    "years": ("y", "year", "years"),
}
_UNIT = {short: unit for unit, shorts in _UNITS.items() for short in shorts}
_SPAN = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)?\s*([a-z]+)\s*", re.ASCII)
_YES, _NO = {"yes", "true", "1"}, {"no", "false", "0"}
_SECONDS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86_400}


def parse(text: str, **options: Any) -> Trigger:
    """The trigger of a line of text such as "every 5m" or "0 7 * * * tz=Europe/Berlin".

    `options` (tz, start, end, except_dates, jitter, gap, fold) are added to those in the text.
    """
    if not isinstance(text, str):
        raise InvalidTrigger(f"{brief(text)} is not a trigger: {_advice([])}")
    words = text.split()
    if text.lstrip().startswith("{"):
        if options:
            raise InvalidTrigger("a trigger given as JSON has its options inside.")
        return load(text)
    end = len(words)
    while end > 1 and (found := _OPTION.fullmatch(words[end - 1])):
        name, value = found.groups()
        if not value:
            raise InvalidTrigger(f"{name}= has no value: write one after it, or leave it out.")
        if name in options:
            raise InvalidTrigger(
                f"{name} is given twice: as {value!r} in the text, and as an option."
            )
        options[name] = _option(name, value)
        end -= 1
    words = ["cron", *words[:end]] if _is_cron(words[:end]) else words[:end]
    kind = words[0].lower() if words else ""
    if kind not in _KINDS:
        raise InvalidTrigger(f"{text[:200]!r} is not a trigger: {_advice(words)}")
    _check_options(text, kind, options)
    rule = " ".join(words[1:])
    if not rule:
        raise InvalidTrigger(
            f"{brief(text)} is not a trigger: after {kind!r} comes {_KINDS[kind]}."
        )
    if kind == "every":
        units: dict[str, Any] = {**_units(rule)}
        return every(**units, **options)
    if kind == "rrule":
        # Its lines may end at spaces here. What does not begin one continues the one before.
        rule = "\n ".join(words[1:])
    makers: dict[str, Callable[..., Trigger]] = {"cron": cron, "at": at, "rrule": rrule}
    return makers[kind](rule, **options)


def _check_options(text: str, kind: str, options: dict[str, Any]) -> None:
    for option, only in (("dialect", "cron"), ("immediately", "every"), ("keep", "at")):
        if option in options and kind != only:
            raise InvalidTrigger(f"{brief(text)} is not a trigger: {option}= belongs to {only}.")


_KINDS = {
    "every": "an interval, such as 5m, 1h30m, 2 months or day",
    "cron": "an expression, such as 0 7 * * MON-FRI",
    "at": "a time, such as 2026-12-31T18:00",
    "rrule": "a rule, such as FREQ=MONTHLY;BYDAY=-1FR",
}


def as_trigger(given: Trigger | str) -> Trigger:
    """What was given as a trigger: one that was made by `every`, `cron`, `at` or `rrule`, or text
    as `parse` reads it."""
    if isinstance(given, str):
        return parse(given)
    if not hasattr(given, "to_json"):
        raise InvalidTrigger(
            f"{brief(given)} is not a trigger: give one such as every(minutes=5), or text such as"
            " 'every 5m' or '0 7 * * *'."
        )
    return given


def _is_cron(words: list[str]) -> bool:
    """A cron expression alone: five or six fields of which the first is numbers, or @daily."""
    if len(words) == 1:
        return words[0].startswith("@")
    return len(words) in (5, 6) and set(words[0]) <= set("0123456789*/,-")


def _advice(words: list[str]) -> str:
    if words and words[0].upper().startswith(("FREQ=", "RRULE:")):
        return "did you mean 'rrule …'?"
    if words and words[0][0].isdigit() and words[0][-1].isalpha():
        return f"did you mean 'every {' '.join(words)}'?"
    return (
        "it begins with every, cron, at or rrule, such as 'every 5m', or is a cron expression,"
        " such as '0 7 * * *'."
    )


def _option(name: str, value: str) -> Any:
    if name == "except_dates":
        return value.split(",")
    if name in ("immediately", "keep"):
        if value.lower() not in _YES | _NO:
            raise InvalidTrigger(f"{name}={brief(value)}: write yes or no.")
        return value.lower() in _YES
    return seconds("jitter", value) if name == "jitter" else value


def seconds(what: str, text: str) -> float:
    """A duration in seconds: 30, 30s, 5m, 1h30m."""
    if re.fullmatch(r"\d{1,15}(\.\d{1,15})?", text, re.ASCII):
        return float(text)
    try:
        units = _units(text)
    except InvalidTrigger:
        raise InvalidTrigger(
            f"{what}={brief(text)} is not a duration: write 30, 30s, 5m or 1h30m."
        ) from None
    total = 0.0
    for unit, count in units.items():
        if unit not in _SECONDS:
            raise InvalidTrigger(f"{what}={text!r}: use seconds, minutes, hours or days.")
        total += count * _SECONDS[unit]
    return total


def _units(text: str) -> dict[str, float]:
    """5m, 1h30m, 2 months, day."""
    found: dict[str, float] = {}
    place, lower = 0, text.lower()
    while place < len(lower):
        match = _SPAN.match(lower, place)
        unit = _UNIT.get(match[2]) if match else None
        if match is None or unit is None or unit in found:
            raise InvalidTrigger(
                f"{brief(text[place:])} is not an interval: write a number and a unit (s, m, h, d,"
                " w, months, years), such as 5m, 1h30m, 2 months."
            )
        number = match[1] or "1"
        found[unit] = float(number) if "." in number else int(number)
        place = match.end()
    return found
