"""Numbers as options take them: no more than a store can count, and never NaN."""

from __future__ import annotations

import math
from typing import Any

import click

LONGEST = 100 * 366 * 86_400.0
"""A century: as good as for ever."""


class Whole(click.IntRange):
    """A whole number, refused in plain words if it is none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            int(value)
        except ValueError:
            self.fail(f"{value!r} is not a whole number.", param, ctx)
        found: int = super().convert(value, param, ctx)
        return found


class Seconds(click.FloatRange):
    """A length of time, more than 0."""

    def __init__(self) -> None:
        super().__init__(min=0, max=LONGEST, min_open=True)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        found: float = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail(f"{value} is not a number of seconds.", param, ctx)
        return found


COUNT = Whole(1, 1_000_000)
SOME = Whole(0, 10_000)
ID = Whole(1, 2**63 - 1)
POSITION = Whole(0, 2**63 - 1)
"""In the log of events; 0 is before all."""
SECONDS = Seconds()
