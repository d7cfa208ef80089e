"""The tables in a document: a benchmark's rows are replaced when it has been measured again.

The other rows stay, with their dates. So tables that take hours can be measured piece by piece.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import report
from benchmarks.processors import STOLEN_FACT
from benchmarks.report import Row
from tenure.errors import ConfigError

BEGIN = "<!-- figures of {store}: filled in by scripts/bench --update -->"
END = "<!-- end of the figures of {store} -->"
DATE, BUSY = "date", "busy before"
NAMES = {"frozen": "freeze", "cut off": "cut"}
"""Benchmarks whose rows begin with another name than theirs."""


@dataclass
class Table:
    """What a document has of a store."""

    facts: dict[str, str] = field(default_factory=dict)
    rows: dict[str, list[Row]] = field(default_factory=dict)
    """By benchmark, as are these:"""
    dates: dict[str, str] = field(default_factory=dict)
    stolen: dict[str, str] = field(default_factory=dict)


def check(path: Path, store: str) -> None:
    """Before anything is measured: can `update` write there?"""
    begin, end = BEGIN.format(store=store), END.format(store=store)
    content = path.read_text(encoding="utf-8") if path.is_file() else ""
    if content.count(begin) != 1 or content.partition(begin)[2].count(end) != 1:
        raise ConfigError(f"{path} must have the lines {begin!r} and {end!r}, once each.")


def differs(path: Path, store: str, facts: Mapping[str, str]) -> list[str]:
    """Which of the facts are others than those of the rows that are there."""
    there = read(path, store)
    keys = [*there.facts, *(key for key in facts if key not in there.facts)] if there.rows else []
    varying = (DATE, BUSY, STOLEN_FACT)
    return [k for k in keys if k not in varying and there.facts.get(k) != facts.get(k)]


def read(path: Path, store: str) -> Table:
    """What is there now."""
    check(path, store)
    begin, end = BEGIN.format(store=store), END.format(store=store)
    block = path.read_text(encoding="utf-8").partition(begin)[2].partition(end)[0]
    about, _, rest = block.strip().partition("\n\n")
    table = Table()
    for line in rest.splitlines()[2:]:
        cells = tuple(line.removeprefix("| ").removesuffix(" |").split(" | "))
        if len(cells) == len(report.HEADINGS):
            name = cells[0].partition(":")[0]
            table.rows.setdefault(NAMES.get(name, name), []).append(cells)
    if table.rows:
        pairs = (fact.partition(": ") for fact in about.replace("\n", " ").split("; "))
        table.facts = {key: value for key, _, value in pairs}
        table.dates = _read_dates(table.facts.get(DATE, ""), table.rows)
        table.stolen = dict(re.findall(r"([a-z]+) (\d+\.\d%)", table.facts.get(STOLEN_FACT, "")))
    return table


def update(
    path: Path,
    store: str,
    measured: Mapping[str, Sequence[Row]],
    facts: Mapping[str, str],
    known: Collection[str],
) -> None:
    """Put the rows of these benchmarks into the table of this store. Rows of others stay, unless
    they are not `known` or were measured with something else; the order is that of `known`."""
    table = Table() if differs(path, store, facts) else read(path, store)
    stolen = dict(re.findall(r"([a-z]+) (\d+\.\d%)", facts.get(STOLEN_FACT, "")))
    rows = table.rows | {name: list(found) for name, found in measured.items()}
    dates = table.dates | dict.fromkeys(measured, facts[DATE])
    shares = table.stolen | stolen
    names = [name for name in known if name in rows]
    merged = dict(facts)
    if BUSY in facts:  # of all parts the busiest
        merged[BUSY] = max(facts[BUSY], table.facts.get(BUSY, ""), key=_per_cent)
    merged[DATE] = _dates({name: dates[name] for name in names})
    if named := [f"{name} {shares[name]}" for name in names if name in shares]:
        merged[STOLEN_FACT] = ", ".join(named)
    every = [row for name in names for row in rows[name]]
    _write(path, store, report.markdown(every, merged))


def _write(path: Path, store: str, block: str) -> None:
    begin, end = BEGIN.format(store=store), END.format(store=store)
    before, _, rest = path.read_text(encoding="utf-8").partition(begin)
    after = rest.partition(end)[2]
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(f"{before}{begin}\n\n{block}\n\n{end}{after}", encoding="utf-8")
    fresh.replace(path)  # all of it or nothing, if somebody stops us here


def _dates(dates: Mapping[str, str]) -> str:
    """One date; or each with what was measured then."""
    days = sorted(set(dates.values()))
    if len(days) == 1:
        return days[0]
    each = {day: ", ".join(name for name in dates if dates[name] == day) for day in days}
    return ", ".join(f"{day} ({names})" for day, names in each.items())


def _read_dates(text: str, names: Collection[str]) -> dict[str, str]:
    parts = re.findall(r"([\d-]{10}) \(([^)]*)\)", text)
    found = {name: day for day, each in parts for name in each.split(", ")}
    return found or dict.fromkeys(names, text)


def _per_cent(text: str) -> int:
    number = re.match(r"\d+", text)
    return int(number[0]) if number else -1
