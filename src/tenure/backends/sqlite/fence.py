"""The fence check inside a user's own SQLite transaction."""

from __future__ import annotations

import sqlite3

from tenure.address import NOWHERE
from tenure.backends.sql import load
from tenure.errors import Fenced, SchemaMismatch

_sql = load("tenure.backends.sqlite", "sql/fence.sql")


def fence(
    connection: sqlite3.Connection, namespace: str, scope: str, term: int, holder: str
) -> None:
    """Raise `Fenced` if a newer term has written here; else note this one."""
    if not connection.in_transaction:
        # Otherwise this would commit on its own, and protect nothing that follows.
        connection.execute("BEGIN IMMEDIATE")
    values = {"namespace": namespace, "scope": scope, "term": term, "holder": holder}
    try:
        passed = connection.execute(_sql["pass"], values).rowcount
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        raise SchemaMismatch(
            "this database has no tables of Tenure: fence() needs them in the database that you"
            f" write to. Run `{NOWHERE.command('migrate')}` once."
        ) from error
    if not passed:
        raise Fenced(
            f"lease {scope!r}: term {term} is over, a newer holder has written here. Roll your"
            " transaction back and stop."
        )
