"""Numbers as options take them: no more than a store can count, and never NaN."""

from __future__ import annotations

import math
from typing import Any

import click

COUNT = click.IntRange(1, 1_000_000)
SOME = click.IntRange(0, 10_000)
ID = click.IntRange(1, 2**63 - 1)
LONGEST = 100 * 366 * 86_400.0
"""A century: whoever means more means for ever."""


class Seconds(click.FloatRange):
    """A length of time, more than 0."""

    def __init__(self) -> None:
        super().__init__(min=0, max=LONGEST, min_open=True)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found: float = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail(f"{value} is not a number of seconds.", param, ctx)
        return found


SECONDS = Seconds()
