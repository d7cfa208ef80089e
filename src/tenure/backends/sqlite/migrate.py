"""Brings the tables up to date: numbered migrations, a ledger, one transaction each.

Within a major version migrations only add, so that old code still works beside new code during a
rollout. `serves` in `tenure_meta` is the oldest schema number that code must know in order to work
with these tables.
"""

from __future__ import annotations

import sqlite3

from tenure.backends.shared import ledger
from tenure.backends.shared.ledger import MAJOR
from tenure.backends.shared.sql import migrations
from tenure.model import Pending
from tenure.model.version import VERSION
from tenure.process.clock import Clock, to_micros

PACKAGE = "tenure.backends.sqlite"
PREFIX = "tenure_"

_LEDGER = """
CREATE TABLE IF NOT EXISTS tenure_migration (
    number     INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    applied_at INTEGER NOT NULL,
    version    TEXT NOT NULL,
    digest     TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS tenure_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


def applied(connection: sqlite3.Connection) -> dict[int, str | None]:
    """The applied migrations according to the ledger, with their digests, which the ledger lacked
    before the first release; none for a database without our tables."""
    if not has_table(connection, "tenure_migration"):
        return {}
    columns = connection.execute("SELECT name FROM pragma_table_info('tenure_migration')")
    digest = "digest" if ("digest",) in [tuple(row) for row in columns] else "NULL"
    query = f"SELECT number, {digest} FROM tenure_migration ORDER BY number"  # noqa: S608
    return dict(connection.execute(query).fetchall())


def pending(connection: sqlite3.Connection) -> list[tuple[int, str, str]]:
    done = applied(connection)
    return [m for m in migrations(PACKAGE) if m[0] not in done]


def check(connection: sqlite3.Connection) -> None:
    """Refuse tables that are not for this code, before anything is changed."""
    if not has_table(connection, "tenure_meta"):
        return
    done = applied(connection)
    ledger.check(meta(connection), done, migrations(PACKAGE), "the tables were", PREFIX)


def meta(connection: sqlite3.Connection) -> dict[str, str]:
    """What the store says about itself."""
    return dict(connection.execute("SELECT key, value FROM tenure_meta").fetchall())


def apply(connection: sqlite3.Connection, clock: Clock) -> list[str]:
    """Apply what is pending, within the caller's write transaction; return the names."""
    check(connection)
    todo = pending(connection)
    if todo:
        _execute(connection, _LEDGER)
        connection.execute("INSERT OR REPLACE INTO tenure_meta VALUES ('major', ?)", (str(MAJOR),))
        connection.execute("INSERT OR IGNORE INTO tenure_meta VALUES ('serves', '1')")
    for number, name, sql in todo:
        try:
            _execute(connection, sql)
        except sqlite3.OperationalError as error:
            if "already exists" in str(error) or "duplicate column" in str(error):
                raise ledger.edited((number, name, sql), PREFIX, str(error)) from error
            raise
        connection.execute(
            "INSERT INTO tenure_migration VALUES (?, ?, ?, ?, ?)",
            (number, name, to_micros(clock.now()), VERSION, ledger.digest(sql)),
        )
    return [f"{number:04d}_{name}" for number, name, _ in todo]


def as_sql(connection: sqlite3.Connection) -> Pending:
    """What is pending, as a script for operators who apply migrations themselves."""
    check(connection)
    return _script(pending(connection))


def everything() -> Pending:
    """The same, for a database that does not exist yet."""
    return _script(migrations(PACKAGE))


def _script(todo: list[tuple[int, str, str]]) -> Pending:
    if not todo:
        return Pending((), "")
    names = tuple(f"{number:04d}_{name}" for number, name, _ in todo)
    now = "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"
    parts = ["PRAGMA journal_mode = WAL;", "BEGIN IMMEDIATE;", _LEDGER.strip(), _meta()]
    for (number, name, sql), full in zip(todo, names, strict=True):
        row = f"({number}, '{name}', {now}, '{VERSION}', '{ledger.digest(sql)}')"
        note = f"INSERT INTO tenure_migration VALUES {row};"  # noqa: S608 - all of it is our own
        parts += [f"-- {full}", sql.strip(), note]
    return Pending(names, "\n\n".join([*parts, "COMMIT;"]) + "\n")


def _meta() -> str:
    return (
        f"INSERT OR REPLACE INTO tenure_meta VALUES ('major', '{MAJOR}');\n"  # noqa: S608
        "INSERT OR IGNORE INTO tenure_meta VALUES ('serves', '1');"
    )


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return connection.execute(query, (name,)).fetchone() is not None


def _execute(connection: sqlite3.Connection, script: str) -> None:
    # Not executescript(): it would commit the transaction that this is part of.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""
    connection.execute(statement)  # the last one need not end with a semicolon
