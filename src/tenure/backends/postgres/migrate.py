"""Brings the schema up to date: numbered migrations, a ledger, one transaction, one at a time.

The migrations have the numbers and names of SQLite's. They only add within a major version, so that
old code lives on beside new code during a rollout.
"""

from __future__ import annotations

from importlib.metadata import version

from tenure.backends.postgres.database import Connection, Database
from tenure.backends.postgres.session import BEGIN, PATH
from tenure.backends.postgres.statements import PACKAGE, quoted
from tenure.backends.sql import migrations
from tenure.errors import SchemaMismatch
from tenure.model import Pending

MAJOR = 1
CHECK_PATIENCE = 10.0
PATIENCE = 60.0
_LOCK = 7_365_108_421  # one number for all of Tenure: migrations are rare

_LEDGER = """
CREATE TABLE IF NOT EXISTS {schema}.migration (
    number     integer PRIMARY KEY,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    version    text NOT NULL
);
CREATE TABLE IF NOT EXISTS {schema}.meta (key text PRIMARY KEY, value text NOT NULL);
INSERT INTO {schema}.meta VALUES ('major', '1'), ('serves', '1') ON CONFLICT DO NOTHING;
"""

# Asked of the catalogue itself. to_regclass() answers from a cache that knows nothing of what
# another session committed while this one waited for the lock.
_SCHEMA = "SELECT 1 AS found FROM pg_catalog.pg_namespace WHERE nspname = %(schema)s"
_META = """
SELECT 1 AS found
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = 'meta'
"""


def as_sql(todo: list[tuple[int, str, str]], schema: str) -> Pending:
    """What is pending, as a script for whoever applies migrations by other means."""
    if not todo:
        return Pending((), "")
    prefix = quoted(schema)
    names = tuple(f"{number:04d}_{name}" for number, name, _ in todo)
    parts = [
        f"{BEGIN};",
        f"SET LOCAL search_path = {PATH};",
        f"CREATE SCHEMA IF NOT EXISTS {prefix};",
        _LEDGER.format(schema=prefix),
    ]
    for (number, name, sql), full in zip(todo, names, strict=True):
        row = f"({number}, '{name}', '{version('tenure')}')"
        note = f"INSERT INTO {prefix}.migration (number, name, version) VALUES {row};"  # noqa: S608
        parts += [f"-- {full}", sql.format(schema=prefix).strip(), note]
    return Pending(names, "\n\n".join(part.strip() for part in [*parts, "COMMIT;"]) + "\n")


async def check(database: Database) -> list[tuple[int, str, str]]:
    """What is pending. Refuses tables that are too new for this code."""

    async def work(connection: Connection) -> list[tuple[int, str, str]]:
        async with database.begun(connection, CHECK_PATIENCE):
            return await pending(connection, database.schema)

    return await database.use(work, CHECK_PATIENCE)


async def apply(database: Database) -> list[str]:
    """Apply what is pending; return the names. Of many at the same time, one does it."""

    async def work(connection: Connection) -> list[str]:
        async with database.begun(connection, 2 * PATIENCE):  # waiting for a lock has half of it
            return await _apply(connection, database.schema)

    return await database.use(work, PATIENCE)


async def _apply(connection: Connection, name: str) -> list[str]:
    schema = quoted(name)
    await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    todo = await pending(connection, name)
    if todo:
        if not await _found(connection, _SCHEMA, {"schema": name}):
            await _script(connection, f"CREATE SCHEMA {schema}")
        await _script(connection, _LEDGER.format(schema=schema))
    for number, title, sql in todo:
        await _script(connection, sql.format(schema=schema))
        await connection.execute(
            f"INSERT INTO {schema}.migration (number, name, version) VALUES (%s, %s, %s)",  # noqa: S608
            (number, title, version("tenure")),
        )
    return [f"{number:04d}_{name}" for number, name, _ in todo]


async def pending(connection: Connection, schema: str) -> list[tuple[int, str, str]]:
    known = migrations(PACKAGE)
    prefix = quoted(schema)
    if not await _found(connection, _META, {"schema": schema}):
        return known
    rows = await (await connection.execute(f"SELECT key, value FROM {prefix}.meta")).fetchall()  # noqa: S608
    meta = {row["key"]: row["value"] for row in rows}
    done = await (await connection.execute(f"SELECT number FROM {prefix}.migration")).fetchall()  # noqa: S608
    numbers = {row["number"] for row in done}
    newest = known[-1][0]
    if int(meta.get("major", MAJOR)) > MAJOR or int(meta.get("serves", 1)) > newest:
        raise SchemaMismatch(
            f"the schema {schema!r} was made by a newer Tenure (schema {meta.get('major')}."
            f"{max(numbers, default=0)}) than this one, {version('tenure')} (schema {MAJOR}."
            f"{newest}). Upgrade the tenure package here; nothing was changed."
        )
    return [m for m in known if m[0] not in numbers]


async def _found(connection: Connection, query: str, values: dict[str, str]) -> bool:
    return await (await connection.execute(query, values)).fetchone() is not None


async def _script(connection: Connection, text: str) -> None:
    # Without parameters psycopg sends it as it is, many statements at a time.
    await connection.execute(text)
