"""What a question to a trigger may cost: work that is counted, not timed.

A count is the same on a slow machine and on a fast one, so every node refuses the same triggers.
Whatever goes through many periods, days or characters counts its steps here. A unit is some
microsecond of work. Outside of `AtMost` nothing is limited.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tenure.errors import InvalidTrigger

MOST = 500_000
"""What reading a trigger may cost, and what planning with it may: about half a second."""
_REMEDY = (
    "it takes too much work to {}. What makes a trigger cheap: UNTIL or end= instead of a COUNT,"
    " a smaller FREQ, BY… parts that match more often, fewer except_dates."
)


class Exhausted(Exception):
    """The work that was allowed is done, and there is more to do."""


class _Meter(threading.local):
    left: float = float("inf")


_meter = _Meter()


def spend(units: float = 1) -> None:
    """Count this work, before it is done."""
    _meter.left -= units
    if _meter.left < 0:
        raise Exhausted


class AtMost:
    """Allow this much inside; what is allowed already stays a limit."""

    __slots__ = ("_allowed", "_outer", "spent")

    def __init__(self, units: float) -> None:
        self._allowed = units
        self.spent = 0.0

    def __enter__(self) -> None:
        self._outer = _meter.left
        _meter.left = self._allowed = min(self._allowed, self._outer)

    def __exit__(self, *error: object) -> None:
        self.spent = self._allowed - _meter.left
        _meter.left = self._outer - self.spent


@contextmanager
def affordable(what: str) -> Iterator[None]:
    """Refuse a trigger that costs more than `MOST`.

    Where less is allowed already, running out is no fault of the trigger: it may be tried again
    where more is.
    """
    if _meter.left < MOST:
        yield
        return
    try:
        with AtMost(MOST):
            yield
    except Exhausted:
        raise InvalidTrigger(_REMEDY.format(what)) from None
