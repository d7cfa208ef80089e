"""A fence in the user's own transaction."""

from __future__ import annotations

import sqlite3

from tenure.backends.address import NOWHERE
from tenure.backends.shared.lease_rows import check_stored
from tenure.backends.shared.sql import load
from tenure.backends.sqlite.user_transaction import LOCK, Executes, Plain, executes
from tenure.errors import ConfigError, Fenced, SchemaMismatch

_sql = load("tenure.backends.sqlite", "sql/office.sql")


async def pass_fence(
    connection: object, namespace: str, scope: str, term: int, holder: str
) -> None:
    """Raise `Fenced` if a newer term has written here, else store this one. Awaits nothing."""
    plain = isinstance(connection, sqlite3.Connection)
    lent = Plain(connection) if isinstance(connection, sqlite3.Connection) else executes(connection)
    values = {"namespace": namespace, "scope": scope, "term": term, "holder": holder}
    try:
        _begin(lent, plain=plain)
        passed = lent.execute(_sql["pass"], values).rowcount
    except Exception as error:
        cause = getattr(error, "orig", error)  # SQLAlchemy has errors of its own
        if not isinstance(cause, sqlite3.OperationalError) or "no such table" not in str(cause):
            raise
        raise SchemaMismatch(
            "this database has no Tenure tables: fence() needs them in the database that you"
            f" write to. Run `{NOWHERE.command('migrate')}` once."
        ) from error
    if not passed:
        [(stored,)] = lent.execute(_sql["stored"], values)
        check_stored(stored, scope, "tenure_fence")
        raise Fenced(
            f"lease {scope!r}: term {term} is over, because a newer holder has written to this"
            " database. Roll your transaction back and stop."
        )


def _begin(lent: Executes, *, plain: bool) -> None:
    """Otherwise the next statement would commit by itself, and protect nothing that follows."""
    if lent.in_transaction:
        return
    if plain:
        lent.execute("BEGIN IMMEDIATE")
        return
    lent.execute(LOCK)  # SQLAlchemy, or its driver, begins before it
    if not lent.in_transaction:
        raise ConfigError(
            "fence() protects what is written in the same transaction, and this connection is in"
            " autocommit mode: use one with another isolation level."
        )
