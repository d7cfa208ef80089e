"""The fence check inside a user's own PostgreSQL transaction (a blocking psycopg connection)."""

from __future__ import annotations

from typing import Any

import psycopg

from tenure.address import NOWHERE
from tenure.backends import sql
from tenure.backends.postgres.statements import PACKAGE, quoted
from tenure.errors import ConfigError, Fenced, SchemaMismatch


def fence(
    connection: Any, namespace: str, scope: str, term: int, holder: str, schema: str = "tenure"
) -> None:
    """Raise `Fenced` if a newer term has written here; else note this one."""
    if not isinstance(connection, psycopg.Connection):
        raise ConfigError(
            f"fence() takes a blocking psycopg.Connection, not {type(connection).__qualname__}."
        )
    if connection.autocommit and connection.info.transaction_status.name == "IDLE":
        raise ConfigError(
            "fence() protects what is written in the same transaction, and this connection is in"
            " autocommit mode: use it inside `with connection.transaction():`."
        )
    statement = sql.load(PACKAGE, "sql/fence.sql")["pass"].format(schema=quoted(schema))
    values = {"namespace": namespace, "scope": scope, "term": term, "holder": holder}
    try:
        passed = connection.execute(statement, values).rowcount
    except psycopg.errors.UndefinedTable as error:
        raise SchemaMismatch(
            "this database has no tables of Tenure: fence() needs them in the database that you"
            f" write to. Run `{NOWHERE.command('migrate')}` once."
        ) from error
    if not passed:
        raise Fenced(
            f"lease {scope!r}: term {term} is over, a newer holder has written here. Roll your"
            " transaction back and stop."
        )
