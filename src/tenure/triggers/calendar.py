"""The ends of the calendar: it has the years 1 to 9999, and a rule may lead beyond."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from tenure.errors import InvalidTrigger

P = ParamSpec("P")
R = TypeVar("R")


def within_calendar(function: Callable[P, R]) -> Callable[P, R]:
    """What leads beyond the calendar is a wrong trigger or time, not a defect."""

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except OverflowError as error:
            raise InvalidTrigger(
                "a time in it, or the one after it, is beyond the calendar, which has the years 1"
                " to 9999. Check start, end, except_dates and the time that was asked about."
            ) from error

    return checked
