"""What the roles of `tenure migrate --roles` may not do: every table, column and act is tried.

What is tried comes from the catalogue, so that a new table or column cannot be forgotten. What is
allowed is written here once more, by hand: whatever is not here must be refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from tests.support.roles import RoleStore
from tests.support.servers import PostgresServer

KINDS = ("reader", "editor", "node")
WRITTEN = (
    "lease",
    "lease_history",
    "schedule",
    "occurrence",
    "run",
    "attempt",
    "task",
    "edition",
    "event",
    "event_group",
    "relay",
    "relay_lane",
    "relay_parked",
    "audit",
    "schedule_summary",
    "lateness",
)
GROWING = ("lease_floor", "fence", "history", "event_log", "summary_position")
EVERY = "every column"
CHANGED = {
    *("tenant", "app", "trigger", "task", "kwargs", "catch_up", "catch_up_limit"),
    *("catch_up_grace", "overlap", "lock", "lock_rule", "priority", "timeout", "retries"),
    *("on_crash", "definition", "active", "reason", "next_nominal", "next_due", "version"),
    *("updated_at", "removed", "begins", "target", "topic", "event_type", "event_data"),
    *("event_key", "event_headers"),
}
EDITED = {
    ("schedule", "INSERT"): {*CHANGED, "namespace", "name", "created_at"},
    ("schedule", "UPDATE"): {*CHANGED, "name"},
    ("run", "INSERT"): {
        *("namespace", "schedule", "schedule_uid", "kind", "key", "nominal", "task", "kwargs"),
        *("state", "due", "attempt", "crashes", "lock", "priority", "timeout", "retries"),
        *("on_crash", "term", "created_at", "tenant", "ready", "traceparent"),
    },
    ("run", "UPDATE"): {"state", "finished_at", "error", "ready"},
    ("occurrence", "INSERT"): EVERY,
    ("occurrence", "UPDATE"): {"last", "reason", "recorded_at", "term"},
    ("event", "INSERT"): {
        *("namespace", "id", "topic", "type", "key", "subject", "time", "data", "headers"),
        *("traceparent", "recorded_at"),
    },
    ("event_group", "INSERT"): EVERY,
    ("event_group", "UPDATE"): {"position", "moved_at"},
    ("relay", "UPDATE"): {"revision", "trouble", "ended"},
    ("audit", "INSERT"): {
        *("namespace", "at", "actor", "place", "via", "action", "subject", "detail"),
    },
    ("audit", "UPDATE"): {"outcome"},
}
TABLES = """
SELECT c.relname, c.relkind::text,
    (SELECT array_agg(a.attname::text ORDER BY a.attnum) FROM pg_attribute a
     WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)
FROM pg_class c WHERE c.relnamespace = 'tenure'::regnamespace AND c.relkind IN ('r', 'v', 'm', 'p')
ORDER BY 1
"""
GRANTED_TO_PUBLIC = """
SELECT n.nspname::text
FROM pg_namespace n, aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a
WHERE n.nspname = 'tenure' AND a.grantee = 0
UNION ALL
SELECT c.relname FROM pg_class c,
    aclexplode(coalesce(c.relacl, acldefault(CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char",
        c.relowner))) a
WHERE c.relnamespace = 'tenure'::regnamespace AND c.relkind IN ('r', 'v', 'S') AND a.grantee = 0
UNION ALL
SELECT c.relname || '.' || t.attname FROM pg_class c
JOIN pg_attribute t ON t.attrelid = c.oid, aclexplode(t.attacl) a
WHERE c.relnamespace = 'tenure'::regnamespace AND a.grantee = 0
UNION ALL
SELECT p.proname FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
WHERE p.pronamespace = 'tenure'::regnamespace AND a.grantee = 0
"""


@pytest.fixture(scope="module")
def store(postgres: PostgresServer) -> Iterator[RoleStore]:
    """One for all: what is tried here changes nothing."""
    store = RoleStore(postgres.create_database("denied")).made()
    store.admin.execute("CREATE ROLE outsider LOGIN")
    yield store
    store.admin.execute("DROP ROLE outsider")
    store.close()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def line(store: RoleStore, kind: str) -> Iterator[psycopg.Connection[Any]]:
    with store.connect(kind) as connection:
        yield connection


def tables(store: RoleStore) -> list[tuple[str, str, list[str]]]:
    found: list[tuple[str, str, list[str]]] = store.admin.execute(TABLES).fetchall()
    assert len(found) > 12
    return found


def may(kind: str, table: str, act: str, column: str) -> bool:
    if kind == "node":
        return table in WRITTEN or (table in GROWING and act != "DELETE")
    columns = EDITED.get((table, act), ()) if kind == "editor" else ()
    return columns is EVERY or column in columns


def refused(line: psycopg.Connection[Any], statement: str) -> bool:
    """Whether the server says no. Whatever else is wrong with a statement is not asked for here."""
    try:
        with line.transaction(force_rollback=True):
            line.execute(statement.encode())
    except InsufficientPrivilege:
        return True
    return False


def test_columns_that_may_be_written(
    store: RoleStore, kind: str, line: psycopg.Connection[Any]
) -> None:
    for table, relkind, columns in tables(store):
        if relkind != "r":
            continue
        for column in columns:
            name = f'"{column}"'
            statements = {
                "INSERT": f"INSERT INTO tenure.{table} ({name}) OVERRIDING SYSTEM VALUE SELECT"
                f" {name} FROM tenure.{table} WHERE false",
                "UPDATE": f"UPDATE tenure.{table} SET {name} = {_same(table, name)} WHERE false",
            }
            for act, statement in statements.items():
                allowed = may(kind, table, act, column)
                assert refused(line, statement) is not allowed, (kind, act, table, column)


def _same(table: str, name: str) -> str:
    # Of a column that is always generated only the default may be asked for.
    return "DEFAULT" if (table, name) in (("schedule", '"uid"'), ("edition", '"number"')) else name


def test_rows_that_may_be_deleted_or_locked(
    store: RoleStore, kind: str, line: psycopg.Connection[Any]
) -> None:
    for table, relkind, columns in tables(store):
        if relkind != "r":
            continue
        deletes = may(kind, table, "DELETE", "")
        assert refused(line, f"DELETE FROM tenure.{table} WHERE false") is not deletes, table
        locks = any(may(kind, table, "UPDATE", column) for column in columns)
        for how in ("FOR UPDATE", "FOR NO KEY UPDATE", "FOR SHARE", "FOR KEY SHARE"):
            statement = f"SELECT * FROM tenure.{table} {how}"
            assert refused(line, statement) is not locks, (kind, table, how)


def test_whole_tables_cannot_be_taken(
    store: RoleStore, kind: str, line: psycopg.Connection[Any]
) -> None:
    """Neither changed nor locked. An editor locks rows of a few tables, and no table."""
    for table, relkind, columns in tables(store):
        if relkind != "r":
            continue
        assert refused(line, f"TRUNCATE tenure.{table}"), table
        assert refused(line, f"ALTER TABLE tenure.{table} ADD COLUMN hers text"), table
        assert refused(line, f"DROP TABLE tenure.{table}"), table
        assert refused(line, f"ALTER TABLE tenure.{table} DISABLE ROW LEVEL SECURITY"), table
        assert refused(line, f"CREATE INDEX hers ON tenure.{table} ({columns[0]})"), table
        assert refused(line, f"CREATE POLICY hers ON tenure.{table} USING (true)"), table
        assert refused(
            line,
            f"CREATE TRIGGER hers BEFORE INSERT ON tenure.{table} FOR EACH ROW EXECUTE FUNCTION"
            " suppress_redundant_updates_trigger()",
        ), table
        weak = () if kind == "editor" and (table, "INSERT") in EDITED else ("ROW SHARE",)
        for mode in (*weak, "SHARE", "EXCLUSIVE", "ACCESS EXCLUSIVE") if kind != "node" else ():
            assert refused(line, f"LOCK TABLE tenure.{table} IN {mode} MODE"), (table, mode)


def test_views_are_read_and_not_written(
    store: RoleStore, kind: str, line: psycopg.Connection[Any]
) -> None:
    for table, relkind, _ in tables(store):
        if relkind == "r":
            assert not refused(line, f"SELECT * FROM tenure.{table}")
            continue
        assert refused(line, f"SELECT * FROM tenure.{table}") is (kind == "node"), table
        for act in ("INSERT", "UPDATE"):
            row = line.execute(
                "SELECT has_any_column_privilege(%s, %s)", (f"tenure.{table}", act)
            ).fetchone()
            assert row == (False,), (kind, table, act)
        with pytest.raises(psycopg.Error), line.transaction(force_rollback=True):
            line.execute(f"DELETE FROM tenure.{table}".encode())


def test_sequences(store: RoleStore, kind: str, line: psycopg.Connection[Any]) -> None:
    drawn = {
        "reader": set[str](),
        "editor": {"schedule_uid_seq"},
        "node": {"schedule_uid_seq", "run_id_seq"},
    }
    names = store.admin.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'tenure'::regnamespace AND relkind = 'S'"
    ).fetchall()
    assert len(names) >= 3
    for (name,) in names:
        draws = name in drawn[kind]
        assert refused(line, f"SELECT nextval('tenure.{name}')") is not draws, (kind, name)
        assert refused(line, f"SELECT setval('tenure.{name}', 1)"), (kind, name)


def test_functions_are_for_editors(
    store: RoleStore, kind: str, line: psycopg.Connection[Any]
) -> None:
    rows = store.admin.execute(
        "SELECT p.oid, p.proname, p.prorettype = 'trigger'::regtype, p.prosecdef FROM pg_proc p"
        " WHERE p.pronamespace = 'tenure'::regnamespace"
    ).fetchall()
    assert len(rows) >= 8
    with_the_rights_of_their_owner = {name for _, name, _, is_owners in rows if is_owners}
    assert with_the_rights_of_their_owner == {
        *("try_cancel", "try_clear", "try_retry", "replay_parked", "drop_parked"),
    }
    for oid, name, is_trigger, is_owners in rows:
        row = line.execute("SELECT has_function_privilege(%s::oid, 'EXECUTE')", (oid,)).fetchone()
        # Nodes could do without `mark_next`: they may mark runs. With it their ends cost less.
        nodes = is_owners or name == "mark_next"
        may = (kind == "editor" and not is_trigger) or (kind == "node" and nodes)
        assert row == (may,), (kind, name)


@pytest.mark.parametrize("who", [*KINDS, "outsider"])
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE tenure.hers (a int)",
        "CREATE VIEW tenure.hers AS SELECT 1",
        "CREATE SEQUENCE tenure.hers",
        "CREATE FUNCTION tenure.hers() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE TYPE tenure.hers AS ENUM ('a')",
        "CREATE OPERATOR tenure.=== (function = int4eq, leftarg = int, rightarg = int)",
        "CREATE SCHEMA hers",
        "DROP SCHEMA tenure CASCADE",
        "ALTER SCHEMA tenure RENAME TO hers",
        "CREATE ROLE hers",
        "GRANT tenure_node TO CURRENT_USER",
        "SET ROLE tenure_migrator",
        "SELECT pg_stat_reset()",
    ],
)
def test_nobody_but_the_migrator_makes_anything(store: RoleStore, who: str, statement: str) -> None:
    url = store.of(who) if who != "outsider" else store.url.replace("tenure@", "outsider@")
    with psycopg.connect(url, autocommit=True) as line:
        assert refused(line, statement)


def test_public_has_nothing(store: RoleStore) -> None:
    assert store.admin.execute(GRANTED_TO_PUBLIC.encode()).fetchall() == []
    with psycopg.connect(store.url.replace("tenure@", "outsider@"), autocommit=True) as outsider:
        for table, _, _ in tables(store):
            assert refused(outsider, f"SELECT * FROM tenure.{table}"), table
        assert refused(outsider, "SELECT tenure.run_now('a')")


def test_none_has_rights_on_the_server(store: RoleStore) -> None:
    rows = store.admin.execute(
        "SELECT rolname FROM pg_roles WHERE rolname LIKE 'tenure\\_%' AND (rolsuper"
        " OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls)"
        " UNION ALL SELECT m.roleid::regrole::text FROM pg_auth_members m"
        " WHERE m.member::regrole::text LIKE 'tenure\\_%'"
    ).fetchall()
    assert rows == []
