"""What `tenure doctor` asks of a PostgreSQL store. Nothing here creates or changes anything."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter

from psycopg.rows import DictRow

from tenure.backends.address import Address
from tenure.backends.postgres import migrate, notifications, snapshots
from tenure.backends.postgres.blockers import described, long_writers, many_locks, named
from tenure.backends.postgres.connections.connection import Connection
from tenure.backends.postgres.connections.database import Database
from tenure.backends.postgres.copying import META
from tenure.backends.postgres.rights import HAS, Rights, finding
from tenure.backends.postgres.statements import Rows, as_it_is, literal, quoted
from tenure.backends.shared import bad_rows, copy_marks
from tenure.backends.shared.numbering import is_number
from tenure.errors import SchemaMismatch, TenureError
from tenure.model import Finding, Severity
from tenure.model.version import VERSION
from tenure.process.clock import Clock

OLDEST = 140000
SKEW = 1.0
MOMENT = 1.0
"""A transaction that has changed something and stays open for so many seconds is reported."""
_OK, _WARNING, _PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM

_FACTS = """
SELECT current_setting('server_version') AS version, clock_timestamp() AS now,
       pg_is_in_recovery() AS replica, pg_backend_pid() AS pid, current_user AS role,
       current_setting('synchronous_standby_names') AS standbys,
       (SELECT count(*) FROM pg_stat_replication) AS replicas,
       current_setting('fsync') AS fsync, pg_notification_queue_usage() AS queue,
       (SELECT json_object_agg(name, reset_val) FROM pg_settings WHERE name = ANY(%(names)s))
           AS defaults
"""
_OVERRULED = {
    "default_transaction_isolation": ("repeatable read", "serializable"),
    "synchronous_commit": ("off",),
}
"""Defaults that our transactions overrule."""
_READ_ONLY = "default_transaction_read_only"

# The system's own objects are not recorded in pg_depend.
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
WHERE n.nspname = %(schema)s AND c.relkind = 'r' AND row_security_active(c.oid) AND (
    NOT EXISTS (
        SELECT 1 FROM pg_policy p
        WHERE p.polrelid = c.oid AND p.polpermissive AND p.polcmd = '*'
          AND p.polroles = ARRAY[0::oid] AND pg_get_expr(p.polqual, p.polrelid) = 'true')
    OR EXISTS (
        SELECT 1 FROM pg_policy p
        WHERE p.polrelid = c.oid AND NOT p.polpermissive
          AND NOT (p.polcmd IN ('a', 'w') AND p.polname ~ '_(insert|update)$')))
ORDER BY 1
"""
"""The policies of `migrate --roles` hide nothing: a role with rights on a table sees all its rows.
They limit only what an editor may write."""


_COLUMNS = """
SELECT c.relname AS table, a.attname AS name, format_type(a.atttypid, NULL) AS kind,
       coalesce(a.attnum = ANY (i.indkey), false) AS key
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
WHERE n.nspname = %(schema)s AND c.relkind = 'r' ORDER BY c.relname, a.attnum
"""
_KINDS = {
    "text": "text",
    "bigint": "integer",
    "integer": "integer",
    "double precision": "real",
    "boolean": "flag",
    "timestamp with time zone": "moment",
}


_SEQUENCES = """
SELECT c.relname AS table, a.attname AS key, s.last_value,
       format('%%I.%%I', s.schemaname, s.sequencename) AS name
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attidentity <> '' AND NOT a.attisdropped
JOIN pg_sequences s
  ON format('%%I.%%I', s.schemaname, s.sequencename)
     = pg_get_serial_sequence(format('%%I.%%I', n.nspname, c.relname), a.attname)
WHERE n.nspname = %(schema)s AND c.relkind = 'r' AND s.last_value IS NOT NULL ORDER BY 1
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
                notifications.finding(
                    row["queue"], await (await connection.execute(notifications.OLDEST)).fetchall()
                ),
                *snapshots.finding(await (await connection.execute(snapshots.OLDEST)).fetchall()),
                *_defaults(row),
                *_foreign(await (await connection.execute(_FOREIGN, values)).fetchall()),
                *_hidden(row, await (await connection.execute(_HIDDEN, values)).fetchall()),
                *await _tables(connection, database.schema, address),
            ]

    # First, and alone: if the lock table is nearly full, little else can be asked.
    crowd = await _lock_table(database)
    try:
        found = await database.use(work) + crowd
    except TenureError as error:
        remedy = "Check the URL, the network and the role."
        return [Finding("server", _PROBLEM, str(error), remedy), *crowd]
    try:
        found += _open_transactions(await long_writers(database, MOMENT))
        return found + await _rows(database, address)
    except TenureError as error:
        return [*found, Finding("rows", _WARNING, f"they could not be looked at: {error}")]


async def _lock_table(database: Database) -> list[Finding]:
    try:
        sessions = await many_locks(database)
    except TenureError:
        return []  # the next question says why
    if not sessions:
        return []
    who = "; ".join(f"{described(s)} holds {s['locks']:,}" for s in sessions)
    ends = " or ".join(f"`SELECT pg_terminate_backend({s['pid']})`" for s in sessions if s["pid"])
    return [
        Finding(
            "lock table",
            _PROBLEM,
            f"the server has room for {sessions[0]['room']:,} locks or somewhat more, and {who}:"
            " when it is full, nothing fires, and nobody can connect to any of its databases",
            f"Find out what it does. To end it, as a superuser or as its role: {ends}."
            " docs/security.md says how to keep others from taking advisory locks.",
        )
    ]


def _open_transactions(sessions: Rows) -> list[Finding]:
    if not sessions:
        return []
    return [
        Finding(
            "open transactions",
            _WARNING,
            f"what they have changed waits for their end: {named(sessions)}",
            "Schedules among it do not fire until then. Let the application commit, or end them.",
        )
    ]


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
    """Defaults of the administrator's. They do not affect Tenure, but the user's own transactions,
    so they are reported."""
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
            "Find out who put it there. Drop it with CASCADE, and make the view again, with the SQL"
            " that `migrate --sql` prints for an empty database.",
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


async def _tables(connection: Connection, schema: str, address: Address) -> list[Finding]:
    """The rights of our role and, if it may read them, the contents of the tables."""
    rows = await (await connection.execute(HAS, {"schema": schema})).fetchall()
    rights = [finding(Rights(schema, rows), address)] if rows else []
    if any(found.severity is _PROBLEM for found in rights):
        return rights
    return [
        *rights,
        await _schema(connection, schema, address),
        *await _copy(connection, schema),
    ]


async def _copy(connection: Connection, schema: str) -> list[Finding]:
    """Whether the store was moved, if it has tables."""
    if not await (await connection.execute(migrate.META, {"schema": schema})).fetchone():
        return []
    rows = await (await connection.execute(META.format(schema=quoted(schema)))).fetchall()
    return copy_marks.finding({row["key"]: row["value"] for row in rows})


async def _rows(database: Database, address: Address) -> list[Finding]:
    """Impossible values, in all tables."""
    findings: list[Finding] = []
    columns = await database.one(_COLUMNS, {"schema": database.schema})
    prefix = quoted(database.schema)
    for name, group in groupby(columns, itemgetter("table")):
        described = list(group)
        table = bad_rows.Table(
            name,
            f"{prefix}.{name}",
            tuple(
                bad_rows.Column(column["name"], _KINDS.get(column["kind"], "anything"))
                for column in described
            ),
            tuple(column["name"] for column in described if column["key"]),
        )
        keys = ", ".join(f"{quoted(key)} DESC" for key in table.keys) or "1"
        query = f"SELECT * FROM {table.full} ORDER BY {keys} LIMIT {bad_rows.MOST_ROWS}"  # noqa: S608
        findings += bad_rows.examine(table, await database.one(query, {}), as_it_is, address)
    for row in await database.one(_SEQUENCES, {"schema": database.schema}):
        if not is_number(row["last_value"]):
            set_to = f"SELECT setval({literal(row['name'])}, {{highest}})"
            full = f"{prefix}.{row['table']}"
            findings.append(
                bad_rows.of_sequence(row["name"], row["last_value"], full, row["key"], set_to)
            )
    return findings or [Finding("rows", _OK, "nothing is in them that cannot be there")]


async def _schema(connection: Connection, schema: str, address: Address) -> Finding:
    try:
        lacking = await migrate.pending(connection, schema)
    except SchemaMismatch as error:
        return Finding("schema", _PROBLEM, str(error))
    if lacking:
        names = ", ".join(f"{number:04d}_{name}" for number, name, _ in lacking)
        remedy = f"Run `{address.command('migrate')}`, or start a scheduler on it."
        return Finding("schema", _PROBLEM, f"{quoted(schema)} lacks: {names}", remedy)
    return Finding("schema", _OK, f"{quoted(schema)} is up to date for Tenure {VERSION}")
