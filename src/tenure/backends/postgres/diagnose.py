"""What `tenure doctor` asks of a PostgreSQL store. Nothing here creates or changes anything."""

from __future__ import annotations

from importlib.metadata import version as package_version

from psycopg.rows import DictRow

from tenure.address import Address
from tenure.backends.postgres import migrate
from tenure.backends.postgres.database import Connection, Database
from tenure.backends.postgres.statements import quoted
from tenure.clock import Clock
from tenure.errors import SchemaMismatch, TenureError
from tenure.model import Finding, Severity

OLDEST = 140000
SKEW = 1.0
_OK, _WARNING, _PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM

_FACTS = """
SELECT current_setting('server_version') AS version, clock_timestamp() AS now,
       pg_is_in_recovery() AS replica, pg_backend_pid() AS pid, current_user AS role,
       current_setting('synchronous_standby_names') AS standbys,
       (SELECT count(*) FROM pg_stat_replication) AS replicas,
       current_setting('fsync') AS fsync,
       (SELECT json_object_agg(name, reset_val) FROM pg_settings WHERE name = ANY(%(names)s))
           AS defaults
"""
_OVERRULED = {
    "default_transaction_isolation": ("repeatable read", "serializable"),
    "synchronous_commit": ("off",),
}
"""The defaults that our transactions do not go by."""
_READ_ONLY = "default_transaction_read_only"

# What the system has is not recorded there.
_FOREIGN = """
SELECT v.relname AS view, pg_describe_object(d.refclassid, d.refobjid, 0) AS what
FROM pg_rewrite r
JOIN pg_class v ON v.oid = r.ev_class
JOIN pg_namespace n ON n.oid = v.relnamespace
JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
WHERE n.nspname = %(schema)s
  AND d.refclassid IN ('pg_proc'::regclass, 'pg_operator'::regclass)
ORDER BY 1, 2
"""
_HIDDEN = """
SELECT c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relkind = 'r' AND row_security_active(c.oid) ORDER BY 1
"""


async def diagnose(database: Database, clock: Clock, address: Address) -> list[Finding]:
    """Each check needs the ones before it; the first that stops the rest ends the list."""

    async def work(connection: Connection) -> list[Finding]:
        async with database.begun(connection, database.longest):
            values = {"names": [*_OVERRULED, _READ_ONLY], "schema": database.schema}
            row = await (await connection.execute(_FACTS, values)).fetchone()
            assert row is not None
            pooled = row["pid"] != connection.info.backend_pid
            return [
                _server(row, connection.info.server_version),
                _writable(row),
                _pooler(pooled),
                _clock(row, clock),
                *_durability(row),
                *_defaults(row),
                *_foreign(await (await connection.execute(_FOREIGN, values)).fetchall()),
                *_hidden(row, await (await connection.execute(_HIDDEN, values)).fetchall()),
                await _schema(connection, database.schema, address),
            ]

    try:
        return await database.use(work)
    except TenureError as error:
        return [Finding("server", _PROBLEM, str(error), "Check the URL, the network and the role.")]


def _server(row: DictRow, number: int) -> Finding:
    text = f"PostgreSQL {row['version']}, as role {row['role']}"
    if number < OLDEST:
        return Finding("server", _WARNING, text, "Older than 14, which is the oldest tested.")
    return Finding("server", _OK, text)


def _writable(row: DictRow) -> Finding:
    if row["replica"]:
        return Finding(
            "role",
            _PROBLEM,
            "this server is a replica and cannot be written",
            "Give the primary's address, or target_session_attrs=read-write in the URL.",
        )
    if row["defaults"].get(_READ_ONLY) == "on":
        return Finding(
            "role",
            _PROBLEM,
            f"{_READ_ONLY} is on for this role, this database or this server: Tenure may only read",
            f"ALTER ROLE {row['role']} SET {_READ_ONLY} = off, if Tenure is to write.",
        )
    return Finding("role", _OK, "primary, writable")


def _pooler(pooled: bool) -> Finding:
    if not pooled:
        return Finding("pooler", _OK, "none: wake-ups and hints of death work")
    return Finding(
        "pooler",
        _WARNING,
        "a connection pooler is in between: no wake-ups (changes are seen by polling), and a"
        " killed leader on another host is noticed only after its ttl",
        "Correct, but slower. Give Tenure the server's own address if you can.",
    )


def _clock(row: DictRow, clock: Clock) -> Finding:
    skew = (row["now"] - clock.now()).total_seconds()
    text = f"this machine is {abs(skew):.2f} s {'behind' if skew > 0 else 'ahead of'} the server"
    if abs(skew) > SKEW:
        return Finding(
            "clock",
            _WARNING,
            text,
            "Schedules follow the server's clock, so nothing fires wrongly; but takeovers get"
            " slower. Let both follow NTP.",
        )
    return Finding("clock", _OK, text)


def _durability(row: DictRow) -> list[Finding]:
    findings = []
    if row["fsync"] == "off":
        findings.append(
            Finding(
                "durability",
                _PROBLEM,
                "fsync is off: a crash of the server loses firings",
                "Set fsync = on.",
            )
        )
    if row["replicas"] and not row["standbys"]:
        findings.append(
            Finding(
                "replication",
                _WARNING,
                f"{row['replicas']} asynchronous replica(s): a failover may lose the last moments",
                "For none lost, set synchronous_standby_names; Tenure cannot keep what the server"
                " loses.",
            )
        )
    return findings or [Finding("durability", _OK, "commits are durable")]


def _defaults(row: DictRow) -> list[Finding]:
    """An administrator's. They are named, since what the user's own transactions do with them is
    the user's affair."""
    defaults = row["defaults"]
    found = [
        f"{name} = {defaults[name]}"
        for name, values in _OVERRULED.items()
        if defaults[name] in values
    ]
    if not found:
        return []
    text = ", ".join(found)
    return [
        Finding(
            "defaults",
            _OK,
            f"{text}: not used by Tenure's own transactions, which state theirs; by yours, also"
            " where Tenure joins them",
        )
    ]


def _foreign(rows: list[DictRow]) -> list[Finding]:
    if not rows:
        return []
    text = "; ".join(f"{row['view']} calls {row['what']}" for row in rows)
    return [
        Finding(
            "views",
            _PROBLEM,
            f"views of Tenure were made to call what is not the system's: {text}",
            "Find out who put it there. Drop it with CASCADE, and make the view again: the command"
            " migrate with --sql prints it if you give it an empty database.",
        )
    ]


def _hidden(row: DictRow, tables: list[DictRow]) -> list[Finding]:
    if not tables:
        return []
    names = ", ".join(table["name"] for table in tables)
    return [
        Finding(
            "row security",
            _WARNING,
            f"policies decide which rows of {names} the role {row['role']} sees: what they hide"
            " neither fires nor runs",
            f"ALTER ROLE {row['role']} BYPASSRLS, or a policy for it: USING (true).",
        )
    ]


async def _schema(connection: Connection, schema: str, address: Address) -> Finding:
    try:
        lacking = await migrate.pending(connection, schema)
    except SchemaMismatch as error:
        return Finding("schema", _PROBLEM, str(error))
    if lacking:
        names = ", ".join(f"{number:04d}_{name}" for number, name, _ in lacking)
        remedy = f"Run `{address.command('migrate')}`, or start a scheduler on it."
        return Finding("schema", _PROBLEM, f"{quoted(schema)} lacks: {names}", remedy)
    version = package_version("tenure")
    return Finding("schema", _OK, f"{quoted(schema)} is up to date for Tenure {version}")
