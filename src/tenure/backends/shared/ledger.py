"""Checks the ledger of a SQL store: the applied migrations, and which code may use the tables.

If it was edited by hand, nothing is changed, and the error says how to repair it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenure.errors import SchemaMismatch
from tenure.model.version import VERSION
from tenure.printable import brief

MAJOR = 1
_BEFORE = "initial"
"""The name of the first migration in databases from before the first release."""
Migration = tuple[int, str, str]
"""Number, name, SQL."""


def check(
    meta: Mapping[Any, Any],
    done: Mapping[int, str],
    known: list[Migration],
    what: str,
    prefix: str,
) -> None:
    """Refuse tables that are too new for this code or too old to be brought up to date, and a
    ledger that was edited.

    `done` has the names of the applied migrations. `what` names the tables in an error, `prefix` is
    how their names begin."""
    newest = known[-1][0]
    major = _number(meta, "major", MAJOR, what, prefix)
    if major > MAJOR or _number(meta, "serves", 1, what, prefix) > newest:
        raise SchemaMismatch(
            f"{what} made by a newer Tenure (schema {major}.{max(done, default=0)}) than this one,"
            f" {VERSION} (schema {MAJOR}.{newest}). Upgrade the tenure package here;"
            " nothing was changed."
        )
    if done.get(1) == _BEFORE:
        raise SchemaMismatch(
            f"{what} made by a version from before the first release, and cannot be brought up to"
            f" date. {_begin_again(prefix)} Nothing was changed."
        )
    for number, name, _ in known:
        if number not in done and number < max(done, default=0):
            raise edited(number, name, prefix, "later ones were applied")


def _begin_again(prefix: str) -> str:
    """The remedy for tables that cannot be brought up to date."""
    see = f"`SELECT name, trigger, task, kwargs FROM {prefix}schedule` shows what you had."  # noqa: S608
    if prefix.endswith("_"):  # SQLite's
        return (
            "Stop all nodes and move the database file away, with its -wal and -shm; or, if it has"
            f" tables of yours, drop all tables and views in it whose names begin with {prefix}."
            f" Then add your schedules again: {see}"
        )
    schema = prefix.removesuffix(".")
    return (
        f"Stop all nodes, and drop it with everything in it: `DROP SCHEMA {schema} CASCADE`. Then"
        " migrate, run the script of the roles again if you use it, and add your schedules again:"
        f" {see}"
    )


def edited(number: int, name: str, prefix: str, why: str) -> SchemaMismatch:
    """The ledger lacks a migration that must have been applied."""
    values = {"number": number, "name": f"'{name}'", "version": f"'{VERSION}'"}
    if prefix.endswith("_"):  # SQLite's, which has no default for it
        values["applied_at"] = 0
    columns, line = ", ".join(values), ", ".join(map(str, values.values()))
    remedy = f"INSERT INTO {prefix}migration ({columns}) VALUES ({line})"  # noqa: S608
    return SchemaMismatch(
        f"the ledger {prefix}migration lacks {number:04d}_{name}, but {why}: the ledger was"
        f" edited. Put its line back: `{remedy}`. Nothing was changed."
    )


def _number(meta: Mapping[Any, Any], key: str, usual: int, what: str, prefix: str) -> int:
    value = meta.get(key, usual)
    try:
        return int(value)
    except (TypeError, ValueError):
        remedy = f"UPDATE {prefix}meta SET value = '{usual}' WHERE key = '{key}'"  # noqa: S608
        raise SchemaMismatch(
            f"{prefix}meta says {key}={brief(value)}, which is not a number: it was edited, and it"
            f" is unknown whether {what} made for this code. If no newer Tenure uses them, run"
            f" `{remedy}`. Nothing was changed."
        ) from None
