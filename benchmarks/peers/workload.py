"""What is due, the same for all: half `every`, half `cron`. Imports nothing of anybody."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple


class Rule(NamedTuple):
    """An interval, or a cron expression for one time of the week."""

    seconds: int | None
    expression: str | None


def rules(count: int, distinct: float) -> list[Rule]:
    """So many rules, of which this part are different from each other."""
    different = [_rule(number) for number in range(max(2, round(count * distinct)))]
    return [different[number % len(different)] for number in range(count)]


def _rule(number: int) -> Rule:
    if number % 2 == 0:
        return Rule(3_600 + number, None)
    minute, hour, day = number % 60, number // 60 % 24, number // 1_440 % 7
    return Rule(None, f"{minute} {hour} * * {day}")


class Options(NamedTuple):
    """What a peer's program is given."""

    url: str
    due: int
    """How many at once, or in each second of a stretch."""
    seconds: float = 0.0
    """How long that stretch is."""


def options() -> Options:
    return Options(**json.loads(sys.argv[1]))


def tell(fired: int, begun: float) -> None:
    """The last word of a peer's program; `begun` is of time.perf_counter()."""
    print(json.dumps({"fired": fired, "seconds": time.perf_counter() - begun}))


def stretch(seconds: float) -> tuple[float, float]:
    """Whole seconds that count: after some in which it gets going."""
    begin = int(time.time()) + 4.0
    return begin, begin + seconds


def tell_starts(starts: Sequence[tuple[float | None, float]]) -> None:
    """The last word of a peer's program: when each was due, if it is known, and when it began."""
    lates = [began - due for due, began in starts if due is not None]
    print(json.dumps({"started": len(starts), "lates": lates}))
