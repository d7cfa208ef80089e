"""Checks the ledger of a SQL store: the applied migrations, each with a digest of its text, and
which code may use the tables.

If it was edited by hand, nothing is changed, and the error says how to repair it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from tenure.errors import SchemaMismatch
from tenure.model.version import VERSION
from tenure.printable import brief

MAJOR = 1
Migration = tuple[int, str, str]
"""Number, name, SQL."""


def digest(sql: str) -> str:
    """What the ledger keeps of the text of a migration: tables made by another are noticed."""
    return hashlib.sha256(sql.encode()).hexdigest()


def check(
    meta: Mapping[Any, Any],
    done: Mapping[int, str | None],
    known: list[Migration],
    what: str,
    prefix: str,
) -> None:
    """Refuse tables that are too new for this code or made by other migrations than its own, and a
    ledger that was edited. Migrations that this code does not know are those of newer code.

    `done` has the digests of the applied migrations, None if the ledger has none. `what` names the
    tables in an error, `prefix` is how their names begin."""
    newest = known[-1][0]
    major = _number(meta, "major", MAJOR, what, prefix)
    if major > MAJOR or _number(meta, "serves", 1, what, prefix) > newest:
        raise SchemaMismatch(
            f"{what} made by a newer Tenure (schema {major}.{max(done, default=0)}) than this one,"
            f" {VERSION} (schema {MAJOR}.{newest}). Upgrade the tenure package here;"
            " nothing was changed."
        )
    for migration in known:
        number, name, sql = migration
        if number in done and done[number] != digest(sql):
            raise SchemaMismatch(
                f"{what} made by a version from before the first release, whose {number:04d}_{name}"
                " was another, and cannot be brought up to date."
                f" {_begin_again(prefix)} Nothing was changed."
            )
        if number not in done and number < max(done, default=0):
            raise edited(migration, prefix, "later ones were applied")


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


def edited(migration: Migration, prefix: str, why: str) -> SchemaMismatch:
    """The ledger lacks a migration that must have been applied."""
    number, name, sql = migration
    values = {
        "number": number,
        "name": f"'{name}'",
        "version": f"'{VERSION}'",
        "digest": f"'{digest(sql)}'",
    }
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
