"""A fence in the user's own transaction, in one round trip if the driver says whether there is
one."""

from __future__ import annotations

import psycopg

from tenure.backends.address import NOWHERE
from tenure.backends.postgres.errors import sqlstate
from tenure.backends.postgres.rights import remedy
from tenure.backends.postgres.statements import PACKAGE, quoted
from tenure.backends.postgres.user_transaction import UserConnection, line_of
from tenure.backends.shared import sql
from tenure.backends.shared.lease_rows import check_stored
from tenure.errors import ConfigError, Fenced, SchemaMismatch

_NO_TABLE, _NOT_ALLOWED, _NO_TRANSACTION = ("42P01", "3F000"), "42501", "25P01"


async def pass_fence(
    connection: object, namespace: str, scope: str, term: int, holder: str, schema: str = "tenure"
) -> None:
    """Raise `Fenced` if a newer term has written here, else store this one. Awaits nothing if the
    driver blocks."""
    line = line_of(connection)
    await _check_transaction(connection, line)
    values = {"namespace": namespace, "scope": scope, "term": term, "holder": holder}
    try:
        passed = await line.rows(_statement("pass", schema), values)
    except Exception as error:
        if sqlstate(error) in _NO_TABLE:
            raise SchemaMismatch(
                "this database has no Tenure tables: fence() needs them in the database that you"
                f" write to. Run `{NOWHERE.command('migrate')}` once."
            ) from error
        if sqlstate(error) == _NOT_ALLOWED:
            error.add_note(f"Tenure: fence() needs the rights of a node. {remedy(NOWHERE)}")
        raise
    if not passed:
        [stored] = await line.rows(_statement("stored", schema), values)
        check_stored(stored["term"], scope, f"{quoted(schema)}.fence")
        raise Fenced(
            f"lease {scope!r}: term {term} is over, because a newer holder has written to this"
            " database. Roll your transaction back and stop."
        )


async def _check_transaction(connection: object, line: UserConnection) -> None:
    """Is there a transaction, or does the driver begin one with the next statement?"""
    if isinstance(connection, psycopg.Connection | psycopg.AsyncConnection):
        idle = connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        if connection.autocommit and idle:
            raise _in_none("it inside `with connection.transaction():`")
        return
    try:
        await line.rows("SAVEPOINT tenure", {})
    except Exception as error:
        if sqlstate(error) != _NO_TRANSACTION:
            raise
        raise _in_none("a connection with another isolation level") from error
    await line.rows("RELEASE SAVEPOINT tenure", {})


def _in_none(remedy: str) -> ConfigError:
    return ConfigError(
        "fence() protects what is written in the same transaction, and this connection is in"
        f" autocommit mode: use {remedy}."
    )


def _statement(name: str, schema: str) -> str:
    return sql.load(PACKAGE, "sql/office.sql")[name].format(schema=quoted(schema))
