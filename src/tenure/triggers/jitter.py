"""Jitter: a delay that spreads what would start at one instant, the same on every node.

It is a pure function of schedule and occurrence, so a new leader plans what the old one planned.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import blake2b

from tenure.errors import InvalidTrigger
from tenure.printable import brief

LONGEST = 86_400.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_ALL = 2**64 - 1


def check(jitter: float) -> float:
    """The jitter in seconds, or an error that says what is wrong with it."""
    if isinstance(jitter, bool) or not isinstance(jitter, int | float):
        raise InvalidTrigger(f"jitter={brief(jitter)}: give a number of seconds.")
    if not 0 <= jitter <= LONGEST:
        raise InvalidTrigger(f"jitter={brief(jitter)}: it must be from 0 to 86400 seconds (a day).")
    return float(jitter)


def delay(jitter: float, uid: int, nominal: datetime) -> timedelta:
    """How long after `nominal` the schedule `uid` is due: evenly spread over [0, jitter]."""
    if not jitter:
        return timedelta(0)
    text = b"%d:%d" % (uid, (nominal - _EPOCH) // _MICROSECOND)
    number = int.from_bytes(blake2b(text, digest_size=8).digest())
    return timedelta(seconds=jitter * (number / _ALL))
