"""The results, for people, for documents and for machines."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from textwrap import fill
from typing import Any

from benchmarks.figures import Figure
from benchmarks.stores import Store
from tenure.errors import ConfigError

BEGIN = "<!-- figures: filled in by scripts/bench --update -->"
END = "<!-- end of figures -->"
WIDTH = 100
HEADINGS = ("figure", "n", "median", "p99", "spread", "target", "met")


def machine(store: Store) -> dict[str, str]:
    """What the figures depend on."""
    kernel = ".".join(platform.release().split(".")[:2])
    return {
        "cores": str(os.cpu_count()),
        "Python": platform.python_version(),
        "system": f"{platform.system()} {kernel}, {platform.machine()}",
        **store.facts(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }


def rows(figures: Sequence[Figure]) -> list[tuple[str, ...]]:
    return [
        (
            figure.what,
            f"{len(figure.values):,}",
            shown(figure.median, figure.unit),
            shown(figure.p99, figure.unit),
            f"{number(min(figure.values))} – {shown(max(figure.values), figure.unit)}",
            _target(figure),
            {None: "–", True: "yes", False: "**NO**"}[figure.met],
        )
        for figure in figures
    ]


def text(figures: Sequence[Figure], facts: Mapping[str, str]) -> str:
    table = [HEADINGS, *rows(figures)]
    widths = [max(len(row[column]) for row in table) for column in range(len(HEADINGS))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in table]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([_facts(facts), "", *(line.rstrip() for line in lines), "", verdict(figures)])


def markdown(figures: Sequence[Figure], facts: Mapping[str, str]) -> str:
    table = (HEADINGS, ("---", *["--:"] * 4, "---", "---"), *rows(figures))
    lines = [f"| {' | '.join(row)} |" for row in table]
    about, judgement = fill(_facts(facts), WIDTH), fill(verdict(figures), WIDTH)
    return "\n".join([about, "", *lines, "", judgement])


def to_json(figures: Mapping[str, Sequence[Figure]], facts: Mapping[str, str]) -> dict[str, Any]:
    return {
        "machine": dict(facts),
        "benchmarks": {name: [f.to_json() for f in found] for name, found in figures.items()},
    }


def verdict(figures: Sequence[Figure]) -> str:
    missed = [figure.what for figure in figures if figure.met is False]
    judged = sum(figure.met is not None for figure in figures)
    if missed:
        return f"{len(missed)} of {judged} targets MISSED: {'; '.join(missed)}."
    return f"All {judged} targets met."


def check_document(path: Path) -> None:
    """Before anything is measured: can `update` write there?"""
    content = path.read_text(encoding="utf-8") if path.is_file() else ""
    if content.count(BEGIN) != 1 or content.partition(BEGIN)[2].count(END) != 1:
        raise ConfigError(f"{path} must have the lines {BEGIN!r} and {END!r}, once each.")


def update(path: Path, block: str) -> None:
    """Put the block between the two marks of a document."""
    check_document(path)
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    path.write_text(f"{before}{BEGIN}\n\n{block}\n\n{END}{after}", encoding="utf-8")


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
    if len(figure.values) == 1:
        return f"≤ {shown(figure.target, figure.unit)}" if figure.target else "0"
    return f"{figure.judged} ≤ {shown(figure.target, figure.unit)}"


def _facts(facts: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {value}" for name, value in facts.items())
