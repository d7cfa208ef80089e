"""The results, for people, for documents and for machines."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from textwrap import fill
from typing import Any

from benchmarks.figures import Figure
from benchmarks.processors import busy_before
from benchmarks.stores import Store

WIDTH = 100
Row = tuple[str, ...]
"""As it is shown."""
HEADINGS = ("figure", "n", "median", "p99", "spread", "target", "met")
MET = {None: "–", True: "yes", False: "**NO**"}


def machine(store: Store, quick: bool = False) -> dict[str, str]:
    """What the figures depend on; to be asked before the run."""
    kernel = ".".join(platform.release().split(".")[:2])
    return {
        **({"NO REAL FIGURES": "a quick run, to see that it works"} if quick else {}),
        "cores": str(os.cpu_count() or 1),
        "Python": platform.python_version(),
        "system": f"{platform.system()} {kernel}, {platform.machine()}",
        **store.facts(),
        **busy_before(0.1 if quick else 3.0),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }


def rows(figures: Sequence[Figure]) -> list[Row]:
    return [
        (
            figure.what,
            f"{len(figure.values):,}",
            shown(figure.median, figure.unit),
            shown(figure.p99, figure.unit),
            f"{number(min(figure.values))} – {shown(max(figure.values), figure.unit)}",
            _target(figure),
            MET[figure.met],
        )
        for figure in figures
    ]


def text(found: Sequence[Row], facts: Mapping[str, str]) -> str:
    table = [HEADINGS, *found]
    widths = [max(len(row[column]) for row in table) for column in range(len(HEADINGS))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in table]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([_facts(facts), "", *(line.rstrip() for line in lines), "", verdict(found)])


def markdown(found: Sequence[Row], facts: Mapping[str, str]) -> str:
    table = (HEADINGS, ("---", *["--:"] * 4, "---", "---"), *found)
    lines = [f"| {' | '.join(row)} |" for row in table]
    about = fill(_facts(facts), WIDTH, break_on_hyphens=False)
    judgement = fill(verdict(found), WIDTH, break_on_hyphens=False)
    return "\n".join([about, "", *lines, "", judgement])


def to_json(figures: Mapping[str, Sequence[Figure]], facts: Mapping[str, str]) -> dict[str, Any]:
    return {
        "machine": dict(facts),
        "benchmarks": {name: [f.to_json() for f in found] for name, found in figures.items()},
    }


def verdict(found: Sequence[Row]) -> str:
    missed = [row[0] for row in found if row[-1] == MET[False]]
    judged = sum(row[-1] != MET[None] for row in found)
    if missed:
        return f"{len(missed)} of {judged} targets MISSED: {'; '.join(missed)}."
    return f"All {judged} targets met."


def shown(value: float, unit: str) -> str:
    return f"{number(value)} {unit}" if unit and unit not in ("×", "/s") else number(value) + unit


def number(value: float) -> str:
    if value == int(value):
        return f"{value:,.0f}"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:,.{digits}f}"


def _target(figure: Figure) -> str:
    if figure.target is None:
        return "–"
    bound = f"{'≥' if figure.least else '≤'} {shown(figure.target, figure.unit)}"
    if len(figure.values) == 1:
        return bound if figure.target else "0"
    return f"{figure.judged} {bound}"


def _facts(facts: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {value}" for name, value in facts.items())
