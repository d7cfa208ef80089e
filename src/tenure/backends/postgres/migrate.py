"""Brings the schema up to date: numbered migrations, a ledger, one transaction, one at a time.

The migrations have the same numbers and names as SQLite's. Within a major version they only add, so
that old code still works beside new code during a rollout.

A lock on the ledger, which needs the right to write it, lets one process migrate at a time. While
there is no ledger the catalogue decides: of two processes that create the same schema or table one
fails, and tries again. It waits for a lock only for a moment, because everything else that wants
the table queues behind it: otherwise a reader with a long transaction would stop all firing.
"""

from __future__ import annotations

import psycopg

from tenure.backends.postgres.blockers import Watch, is_locked, named
from tenure.backends.postgres.connections.connection import Connection
from tenure.backends.postgres.connections.database import Database
from tenure.backends.postgres.connections.session import BEGIN, PATH, PROCESS
from tenure.backends.postgres.statements import PACKAGE, quoted
from tenure.backends.shared import ledger
from tenure.backends.shared.sql import migrations
from tenure.errors import StoreError, StoreUnavailable
from tenure.model import Pending
from tenure.model.version import VERSION
from tenure.process.clock import SystemClock

_THERE = (
    psycopg.errors.DuplicateTable,
    psycopg.errors.DuplicateColumn,
    psycopg.errors.DuplicateObject,
    psycopg.errors.DuplicateFunction,
)
CHECK_PATIENCE = 10.0
PATIENCE = 60.0
MOMENT = 0.5
"""How many seconds to wait for a lock, and then to pause, so that others have their turn."""
_real = SystemClock()  # the server waits for locks in real time
_DEADLOCK = psycopg.errors.DeadlockDetected
_MADE_MEANWHILE = (
    psycopg.errors.UniqueViolation,  # in the catalogue
    psycopg.errors.DuplicateSchema,
    psycopg.errors.DuplicateTable,
)

_LEDGER = """
CREATE TABLE IF NOT EXISTS {schema}.migration (
    number     integer PRIMARY KEY,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    version    text NOT NULL,
    digest     text NOT NULL
);
CREATE TABLE IF NOT EXISTS {schema}.meta (key text PRIMARY KEY, value text NOT NULL);
INSERT INTO {schema}.meta VALUES ('major', '1'), ('serves', '1') ON CONFLICT DO NOTHING;
"""

_COLUMNS = "(number, name, version, digest)"

# Not IF NOT EXISTS, which needs the right to create a schema even if it exists.
_CREATE_SCHEMA = """
DO $do$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = '{name}') THEN
        CREATE SCHEMA {schema};
    END IF;
END $do$;
"""

# From the catalogue itself: to_regclass() answers from a cache that may miss what another session
# committed while this one waited for the lock.
_SCHEMA = "SELECT 1 AS found FROM pg_catalog.pg_namespace WHERE nspname = %(schema)s"
_SETTINGS = """
SELECT set_config('lock_timeout', %(moment)s, true),
       set_config('application_name', 'tenure migration', true)
"""
META = """
SELECT 1 AS found
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = 'meta'
"""


def as_sql(todo: list[tuple[int, str, str]], schema: str) -> Pending:
    """What is pending, as a script for operators who apply migrations themselves."""
    if not todo:
        return Pending((), "")
    prefix = quoted(schema)
    names = tuple(f"{number:04d}_{name}" for number, name, _ in todo)
    parts = [
        f"{BEGIN};",
        f"SET LOCAL search_path = {PATH};",
        "-- While this waits for a table, all others wait too. If it gives up, run it again.",
        "SET LOCAL lock_timeout = '1s';",
        _CREATE_SCHEMA.format(schema=prefix, name=schema),
        _LEDGER.format(schema=prefix),
    ]
    for (number, name, sql), full in zip(todo, names, strict=True):
        row = f"({number}, '{name}', '{VERSION}', '{ledger.digest(sql)}')"
        note = f"INSERT INTO {prefix}.migration {_COLUMNS} VALUES {row};"  # noqa: S608
        parts += [f"-- {full}", sql.format(schema=prefix).strip(), note]
    return Pending(names, "\n\n".join(part.strip() for part in [*parts, "COMMIT;"]) + "\n")


async def check(database: Database) -> list[tuple[int, str, str]]:
    """What is pending. Refuses tables that are not for this code."""

    async def work(connection: Connection) -> list[tuple[int, str, str]]:
        async with database.begun(connection, CHECK_PATIENCE):
            return await pending(connection, database.schema)

    return await database.use(work, CHECK_PATIENCE)


async def apply(database: Database) -> list[str]:
    """Apply what is pending; return the names. If many processes try at once, one does it."""
    attempt = _Attempt(database)
    until = _real.monotonic() + PATIENCE
    while True:
        try:
            return await attempt.made()
        except StoreError as error:
            locked = is_locked(error) or isinstance(error.__cause__, _DEADLOCK)
            if not (locked or attempt.was_late(error)):
                raise
            if _real.monotonic() > until:
                if not (locked and attempt.watch.met):
                    raise
                raise StoreUnavailable(
                    f"the schema {database.schema!r} cannot be migrated, because other sessions"
                    f" hold locks on it: {named(attempt.watch.met)} Nothing was changed."
                ) from error
            await _real.sleep(MOMENT if locked else 0)


class _Attempt:
    """One attempt to apply what is pending, which never waits long for a lock."""

    def __init__(self, database: Database) -> None:
        self.watch = Watch(database, MOMENT / 2)
        self._database = database
        self._creates = False

    async def made(self) -> list[str]:
        async def work(connection: Connection) -> list[str]:
            async with self._database.begun(connection, PATIENCE):
                return await self._apply(connection, self._database.schema)

        async with self.watch.kept():
            return await self._database.use(work, PATIENCE)

    def was_late(self, error: StoreError) -> bool:
        """Did another process just create what we were about to create?"""
        return self._creates and isinstance(error.__cause__, _MADE_MEANWHILE)

    async def _apply(self, connection: Connection, name: str) -> list[str]:
        schema = quoted(name)
        process = await (await connection.execute(PROCESS)).fetchone()
        assert process is not None
        self.watch.waiter = process["pid"]
        await connection.execute(_SETTINGS, {"moment": f"{int(MOMENT * 1000)}ms"})
        self._creates = not await _found(connection, META, {"schema": name})
        if self._creates:
            if not await _found(connection, _SCHEMA, {"schema": name}):
                await _script(connection, f"CREATE SCHEMA {schema}")
            await _script(connection, _LEDGER.format(schema=schema))
        elif not await pending(connection, name):
            return []  # another process has done it
        await _script(connection, f"LOCK TABLE {schema}.migration IN SHARE ROW EXCLUSIVE MODE")
        todo = await pending(connection, name)
        for number, title, sql in todo:
            try:
                await _script(connection, sql.format(schema=schema))
            except _THERE as error:
                raise ledger.edited((number, title, sql), f"{schema}.", str(error)) from error
            await connection.execute(
                f"INSERT INTO {schema}.migration {_COLUMNS} VALUES (%s, %s, %s, %s)",  # noqa: S608
                (number, title, VERSION, ledger.digest(sql)),
            )
        return [f"{number:04d}_{name}" for number, name, _ in todo]


async def pending(connection: Connection, schema: str) -> list[tuple[int, str, str]]:
    known = migrations(PACKAGE)
    prefix = quoted(schema)
    if not await _found(connection, META, {"schema": schema}):
        return known
    rows = await (await connection.execute(f"SELECT key, value FROM {prefix}.meta")).fetchall()  # noqa: S608
    meta = {row["key"]: row["value"] for row in rows}
    # By way of JSON, because the ledger had no digests before the first release.
    lines = f"SELECT number, to_jsonb(m) ->> 'digest' AS digest FROM {prefix}.migration m"  # noqa: S608
    rows = await (await connection.execute(lines)).fetchall()
    done = {row["number"]: row["digest"] for row in rows}
    ledger.check(meta, done, known, f"the schema {schema!r} was", f"{prefix}.")
    return [m for m in known if m[0] not in done]


async def _found(connection: Connection, query: str, values: dict[str, str]) -> bool:
    return await (await connection.execute(query, values)).fetchone() is not None


async def _script(connection: Connection, text: str) -> None:
    # Without parameters psycopg sends it as it is, many statements at a time.
    await connection.execute(text)
