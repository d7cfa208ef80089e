"""Firings as rows of the temporary table from which SQLite fires."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tenure.model import Firing, Missed
from tenure.process.clock import to_micros


def rows(firings: Sequence[Firing]) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    """One row for each occurrence, numbered in their order. Plain firings, which are on time and
    nothing else, come first: they need fewer columns. Of any other firing the first row carries
    the missed stretch."""
    plain: list[tuple[object, ...]] = []
    others: list[tuple[object, ...]] = []
    n = 0
    for firing in firings:
        uid, version, expected, occurrences, missed, next_nominal, next_due, trigger, target, _ = (
            firing
        )
        simple = missed is None and trigger is None and next_due is next_nominal
        if simple and len(occurrences) == 1 and occurrences[0] == (expected, expected):
            n += 1
            moment, later = _micros(expected), _micros(next_nominal)
            plain.append((n, uid, version, moment, moment, moment, later, later, target))
            continue
        stretch = _NOTHING if missed is None else _stretch(missed)
        plan = _micros(next_nominal), _micros(next_due), trigger, len(occurrences) > 1, target
        for nominal, due in occurrences or _NO_OCCURRENCE:
            moments = _micros(expected), _micros(nominal), _micros(due)
            n += 1
            others.append((n, uid, version, *moments, *stretch, *plan))
            stretch = _NOTHING
    return plain, others


_NOTHING: tuple[object, ...] = (None, None, None)
_NO_OCCURRENCE = ((None, None),)


def _stretch(missed: Missed) -> tuple[object, ...]:
    return to_micros(missed.first), to_micros(missed.last), missed.reason


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)
