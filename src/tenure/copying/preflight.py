"""What must hold before a copy begins. Looks, and changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tenure.backends.base.copying import UNCOPIED, CopiedTable, CopySide
from tenure.errors import ConfigError, Conflict, SchemaMismatch
from tenure.words import count

COPIED, COMPARED = 6_500, 17_000
"""Rows a second: copied before the handover, and compared during it. Measured with 200,000 runs,
from SQLite to a PostgreSQL beside it, on two busy cores: better too long than too short."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be copied."""

    tables: tuple[CopiedTable, ...]
    rows: Mapping[str, int]
    """By table."""
    claimed: int
    """Runs that are claimed now."""

    @property
    def total(self) -> int:
        return sum(self.rows.values())

    @property
    def seconds(self) -> float:
        """About so long until the handover."""
        return 1 + self.total / COPIED

    @property
    def pause(self) -> float:
        """For about so long nothing fires, without the wait for claimed runs."""
        return 1 + self.total / COMPARED


def plan(source: CopySide, target: CopySide | None) -> Plan:
    """The tables that both have, and how much is in them. Without a target: its tables do not
    exist yet, and will be this version's."""
    source.check_rights()
    tables = source.tables()
    if target is not None:
        target.check_rights()
        _check_fit(source, tables, target)
    # Schedules first: other rows name theirs.
    copied = sorted((t for n, t in tables.items() if n not in UNCOPIED), key=_order)
    rows = {table.name: source.count(table.name) for table in copied}
    return Plan(tuple(copied), rows, source.claimed())


def check_places(source: str, target: str) -> None:
    if source == target:
        raise ConfigError(f"SOURCE and TARGET are both {source}. Give two stores.")


def check_empty(target: CopySide) -> None:
    found = {name: target.count(name) for name in target.tables()}
    some = ", ".join(f"{name} ({count(rows, 'row')})" for name, rows in found.items() if rows)
    if some:
        raise Conflict(
            f"{target.location} is not empty: {some}. Stop its nodes if there are any, and give a"
            " new file, or a database without the schema tenure. Nothing was changed."
        )


def _check_fit(source: CopySide, tables: dict[str, CopiedTable], target: CopySide) -> None:
    others = target.tables()
    differ = sorted(
        name
        for name in (tables.keys() | others.keys()) - UNCOPIED
        if tables.get(name) != others.get(name)
    )
    if differ:
        raise SchemaMismatch(
            f"the tables {', '.join(differ)} of {source.location} and {target.location} differ."
            " Migrate both with the same version of Tenure. Nothing was changed."
        )


def _order(table: CopiedTable) -> tuple[bool, str]:
    return table.name != "schedule", table.name
