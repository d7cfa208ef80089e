"""Finds rows with impossible values, for `tenure doctor`, and says what to do about them.

Everything else works despite such a row (lease_rows.py, rows.py). But another program or a person
has written where only Tenure writes, and what the row stands for may not happen. The stores list
their tables from the database's own catalogue, so that none is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from math import isfinite
from typing import Any

from tenure import triggers
from tenure.backends.address import Address
from tenure.backends.base import OWN
from tenure.backends.shared.lease_rows import known_term, read_info
from tenure.backends.shared.numbering import NUMBERS, is_number
from tenure.errors import InvalidTrigger, UnknownTrigger
from tenure.model import (
    HIGHEST_TERM,
    LONGEST_TTL,
    AttemptOutcome,
    CatchUp,
    Finding,
    Kind,
    OccurrenceState,
    OnCrash,
    Overlap,
    RunState,
    Severity,
)
from tenure.printable import brief

MOST_ROWS = 20_000
"""How many rows of a table are checked, the newest if the store can tell."""
SHOWN = 100
"""How many bad rows of a table are named."""

_TERMS = {"lease", "lease_history", "lease_floor", "fence", "run", "occurrence"}
_RENEWED = {
    *("counter", "ttl", "renewed_at", "boot", "expires", "expires_at", "expires_boot"),
    *("session", "session_start"),
}
"""The columns of a lease that every renewal overwrites."""
_DECISIVE = {"holder", "term"}
"""A renewal compares these. If they cannot be read, the holder has lost its lease."""
_SERIOUS = {"lease", "fence", "schedule"}
_NUMBERED = {
    *(("schedule", "uid"), ("run", "id"), ("edition", "number"), ("audit", "id")),
    *(("event", "number"), ("event", "position"), ("event_log", "position")),
}
_MOMENTS = {"nominal", "last", "due", "next_nominal", "next_due", "begins", "pruned_to"}


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kind: str
    """text, integer, real, flag, moment or anything."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of ours: `name` as both stores call it, `full` as this one does."""

    name: str
    full: str
    columns: tuple[Column, ...]
    keys: tuple[str, ...]

    def wrong(self, row: Mapping[str, Any], moment: Callable[[Any], datetime]) -> list[str]:
        """The columns with impossible values, and the values."""
        return [
            f"{column.name}={brief(row[column.name])}"
            for column in self.columns
            if row[column.name] is not None and not self._sound(column, row[column.name], moment)
        ]

    def _sound(self, column: Column, value: Any, moment: Callable[[Any], datetime]) -> bool:
        special = _SPECIAL.get((self.name, column.name))
        if special is None and column.name == "term" and self.name in _TERMS:
            special = _is_term
        if (self.name, column.name) in _NUMBERED:
            special = is_number
        try:
            if column.kind == "moment":
                moment(value)
                return True
            return _KINDS[column.kind](value) and (special is None or special(value))
        except (TypeError, ValueError, OverflowError, RecursionError):
            return False


def kind_of(declared: str, name: str) -> str:
    """The kind of a column by its declared type, which SQLite does not enforce."""
    if declared == "INTEGER" and (name.endswith("_at") or name in _MOMENTS):
        return "moment"
    return {"INTEGER": "integer", "REAL": "real", "TEXT": "text"}.get(declared, "anything")


def examine(
    table: Table,
    rows: Iterable[Mapping[str, Any]],
    moment: Callable[[Any], datetime],
    address: Address,
) -> list[Finding]:
    """A finding for each of the first bad rows."""
    findings: list[Finding] = []
    more = seen = 0
    for row in map(dict, rows):
        seen += 1
        wrong = table.wrong(row, moment)
        if wrong and len(findings) < SHOWN:
            findings.append(_finding(table, row, wrong, address))
        elif wrong:
            more += 1
    if more:
        text = f"{more:,} more rows of {table.full} have values that cannot be there"
        findings.append(Finding("rows", Severity.WARNING, text))
    if seen >= MOST_ROWS:
        text = f"of {table.full} the last {MOST_ROWS:,} rows were looked at, and no others"
        findings.append(Finding("rows", Severity.OK, text))
    return findings


def of_sequence(name: str, value: Any, table: str, key: str, set_to: str) -> Finding:
    """About a sequence that counts from where no row can be; `set_to` takes the highest of all."""
    highest = f"(SELECT coalesce(max({key}), 0) FROM {table} WHERE {key} < {NUMBERS})"  # noqa: S608 - for people to read
    return Finding(
        "sequences",
        Severity.PROBLEM,
        f"{name} is at {brief(value)}, where it cannot be: no new row of {table} may get a number",
        f"Set it to the greatest that is there: `{set_to.format(highest=highest)}`",
    )


def _finding(table: Table, row: Mapping[str, Any], wrong: list[str], address: Address) -> Finding:
    where = " AND ".join(f"{key} = {_literal(row[key])}" for key in table.keys)
    text = f"{table.full} has what cannot be there, where {where}: {', '.join(wrong)}"
    stuck = table.name == "lease" and row["term"] == HIGHEST_TERM
    serious = stuck or (table.name in _SERIOUS and not _free(table, row))
    severity = Severity.PROBLEM if serious else Severity.WARNING
    columns = {column.partition("=")[0] for column in wrong}
    return Finding("rows", severity, text, _remedy(table, row, columns, where, address))


def _free(table: Table, row: Mapping[str, Any]) -> bool:
    return table.name == "lease" and row["holder"] is None


def _remedy(
    table: Table, row: Mapping[str, Any], wrong: set[str], where: str, address: Address
) -> str:
    namespace, name = row.get("namespace"), row.get("name")
    if isinstance(namespace, str):
        address = replace(address, namespace=namespace)
    delete = f"`DELETE FROM {table.full} WHERE {where}`"  # noqa: S608 - for people to read
    match table.name:
        case "lease" | "lease_history" if row["term"] == HIGHEST_TERM:
            return (
                f"No term is above it, so nobody gets it. Stop all that may hold it, then: {delete}"
            )
        case "lease" if _free(table, row):
            return f"Nobody holds it, and the next holder rewrites it. To remove it: {delete}"
        case "lease" if isinstance(name, str):
            return _of_held(wrong, f"`{address.command('leases', 'evict', name=name)}`")
        case "fence" if str(row["scope"]).startswith(OWN):
            return "The next leader rewrites it. If nobody leads, look at the logs of the nodes."
        case "fence":
            return f"Stop all that may write under an old term of it, then: {delete}"
        case "lease_floor":
            return (
                "The greatest term of all leases and of their history counts instead. Write that:"
                f" `{_mended_floor(table, where)}`"
            )
        case "schedule" if isinstance(name, str):
            return (
                f"Change what is wrong, or remove it and add it again:"
                f" `{address.command('schedules', 'remove', name=name)}`"
            )
        case "edition":
            return (
                "The nodes of that edition rewrite it when they start, or soon after. If there"
                f" are none: {delete}"
            )
        case "run" if wrong == {"id"}:
            return f"It may run. New runs get ids below it. To have it gone: {delete}"
        case "run":
            return f"It is recorded as failed when it is its turn. To have it gone: {delete}"
    return f"It is shown with blanks. To have it gone: {delete}"


def _of_held(wrong: set[str], evict: str) -> str:
    if wrong & _DECISIVE:
        return f"Its holder cannot renew it, and it is taken over in time. To end it now: {evict}"
    if wrong <= _RENEWED:
        return f"A holder that lives mends it with its next renewal. If it stays, end it: {evict}"
    return (
        "Its holder keeps it while it renews; the next grant overwrites it. A renewal does not:"
        " to have it mended sooner, restart the holder."
    )


def _mended_floor(table: Table, where: str) -> str:
    """Never a DELETE: without the floor, new leases would get terms that were granted before."""
    lease, history = (table.full.removesuffix("_floor") + end for end in ("", "_history"))
    return (
        f"UPDATE {table.full} SET term = (SELECT CAST(coalesce(max(term), 0) AS bigint) FROM"  # noqa: S608 - for people to read
        f" (SELECT namespace, term FROM {lease} UNION ALL SELECT namespace, term FROM {history})"
        f" AS known WHERE {where} AND term BETWEEN 1 AND {HIGHEST_TERM}) WHERE {where}"
    )


def _literal(value: Any) -> str:
    """A literal for people to read: a long one is cut."""
    if isinstance(value, bytes):
        return f"x'{value[:40].hex()}'"
    if isinstance(value, str):
        return "'" + (value[:100].replace("'", "''")) + "'"
    return brief(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int)


def _is_real(value: Any) -> bool:
    return isinstance(value, int | float) and isfinite(value)


def _is_term(value: Any) -> bool:
    return bool(known_term(value) == value) and value < HIGHEST_TERM


def _is_count(value: Any) -> bool:
    return bool(value >= 0)


def _is_trigger(value: Any) -> bool:
    """A trigger that newer code wrote may be valid."""
    try:
        triggers.load(value)
    except UnknownTrigger:
        return True
    except InvalidTrigger:
        return False
    return True


def _word_of(words: type[StrEnum]) -> Callable[[Any], bool]:
    known = frozenset(map(str, words))
    return lambda value: value in known


def _is_object(value: Any) -> bool:
    return isinstance(json.loads(value), dict)


_KINDS: dict[str, Callable[[Any], bool]] = {
    "text": _is_text,
    "integer": _is_integer,
    "real": _is_real,
    "flag": lambda value: value in (0, 1),
    "anything": lambda value: True,
}
_SPECIAL: dict[tuple[str, str], Callable[[Any], bool]] = {
    ("lease", "ttl"): lambda value: 0 < value <= LONGEST_TTL,
    ("lease", "counter"): lambda value: value >= 0,
    ("lease", "info"): lambda value: read_info(value) is not None,
    ("edition", "definitions"): _is_object,
    ("schedule", "kwargs"): _is_object,
    ("schedule", "trigger"): _is_trigger,
    ("schedule", "retries"): _is_count,
    ("schedule", "catch_up_limit"): _is_count,
    ("schedule", "catch_up_grace"): _is_count,
    ("schedule", "catch_up"): _word_of(CatchUp),
    ("schedule", "overlap"): _word_of(Overlap),
    ("schedule", "on_crash"): _word_of(OnCrash),
    ("run", "kwargs"): _is_object,
    ("run", "retries"): _is_count,
    ("run", "state"): _word_of(RunState),
    ("run", "kind"): _word_of(Kind),
    ("run", "on_crash"): _word_of(OnCrash),
    ("attempt", "outcome"): _word_of(AttemptOutcome),
    ("attempt", "progress"): lambda value: 0 <= value <= 1,
    ("attempt", "log_dropped"): _is_count,
    ("occurrence", "state"): _word_of(OccurrenceState),
    ("occurrence", "kind"): _word_of(Kind),
}
