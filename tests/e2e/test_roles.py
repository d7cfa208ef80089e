"""`tenure migrate --roles` on PostgreSQL: the script itself."""

from __future__ import annotations

import asyncio
import subprocess
from itertools import count
from pathlib import Path

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from tenure.backends.postgres import PostgresBackend
from tenure.backends.postgres import migrate as migrations
from tenure.backends.shared.sql import migrations as known_migrations
from tests.e2e.command import at_hand
from tests.support.roles import KINDS, RoleStore, make_roles, migrate, rights_of
from tests.support.servers import PostgresServer

_numbers = count()
NOWHERE = "postgresql://nobody@127.0.0.1:1/app"
STATE = """
SELECT 'schema', nspname::text, nspowner::regrole::text, nspacl::text FROM pg_namespace
WHERE nspname = 'tenure'
UNION ALL
SELECT 'thing', relname, relowner::regrole::text, relacl::text FROM pg_class
WHERE relnamespace = 'tenure'::regnamespace AND relkind IN ('r', 'v', 'S')
UNION ALL
SELECT 'column', attrelid::regclass || '.' || attname, '', attacl::text FROM pg_attribute
WHERE attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'tenure'::regnamespace)
  AND attacl IS NOT NULL
UNION ALL
SELECT 'function', proname, proowner::regrole::text, proacl::text FROM pg_proc
WHERE pronamespace = 'tenure'::regnamespace
UNION ALL
SELECT 'default', defaclobjtype::text, defaclrole::regrole::text, defaclacl::text
FROM pg_default_acl
UNION ALL
SELECT 'policy', polname, polrelid::regclass::text, oid::text FROM pg_policy
ORDER BY 1, 2, 3, 4
"""


def test_printing_asks_no_server(tmp_path: Path) -> None:
    answer = at_hand(tmp_path, "migrate", "--roles", "--url", NOWHERE)
    assert answer.code == 0, answer
    assert all(f"tenure_{kind}" in answer.out for kind in KINDS)
    assert "as a superuser" in answer.err
    other = at_hand(tmp_path, "migrate", "--roles", "--prefix", "shop_", "--url", NOWHERE)
    assert "'shop_node'" in other.out
    assert "tenure_node" not in other.out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--roles", "--sql"], "cannot be combined"),
        (["--roles", "--check"], "cannot be combined"),
        (["--roles", "--prefix", "pg_"], "PostgreSQL reserves"),
        (["--roles", "--prefix", "a'b"], "lower-case"),
        (["--roles", "--prefix", "x" * 31], "30 characters"),
    ],
)
def test_wrong_usage(options: list[str], says: str, tmp_path: Path) -> None:
    answer = at_hand(tmp_path, "migrate", *options, "--url", NOWHERE)
    assert (answer.code, says in answer.err) == (2, True), answer


def test_password_is_not_in_the_script(tmp_path: Path) -> None:
    answer = at_hand(
        tmp_path, "migrate", "--roles", "--url", "postgresql://u:geheim@127.0.0.1:1/app"
    )
    assert "geheim" not in answer.out + answer.err


@pytest.mark.parametrize("name", ["it's", "a\\b", "do $do$ END; --", 'a"b'])
def test_database_by_any_name(name: str, postgres: PostgresServer) -> None:
    """Nothing of a name is taken for SQL; and in another database nothing happens."""
    with psycopg.connect(postgres.url, autocommit=True) as admin:
        admin.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(name)))
    quoted = "".join(f"%{byte:02X}" for byte in name.encode())
    script = PostgresBackend(f"postgresql://tenure@127.0.0.1:{postgres.port}/{quoted}").role_script(
        f"odd{next(_numbers)}_"
    )
    with psycopg.connect(postgres.url, autocommit=True) as elsewhere:
        before = elsewhere.execute("SELECT count(*) FROM pg_roles").fetchall()
        with pytest.raises(psycopg.errors.RaiseException, match="Nothing was changed"):
            elsewhere.execute(script.commands.encode())
        elsewhere.execute("ROLLBACK")
        assert elsewhere.execute("SELECT count(*) FROM pg_roles").fetchall() == before
    there = psycopg.conninfo.make_conninfo(postgres.url, dbname=name)
    with psycopg.connect(there, autocommit=True) as line:
        line.execute(script.commands.encode())


def test_again_changes_nothing(store: RoleStore) -> None:
    before = store.admin.execute(STATE).fetchall()
    for who in (store.of("migrator"), store.url, store.of("migrator")):
        assert make_roles(who) == []
        assert store.admin.execute(STATE).fetchall() == before


def test_what_was_granted_beside_it_is_taken_back(store: RoleStore) -> None:
    before = store.admin.execute(STATE).fetchall()
    store.admin.execute("GRANT ALL ON tenure.fence TO tenure_editor, PUBLIC")
    store.admin.execute("GRANT UPDATE (term) ON tenure.lease TO tenure_reader")
    store.admin.execute("GRANT CREATE ON SCHEMA tenure TO tenure_node")
    assert store.admin.execute(STATE).fetchall() != before
    make_roles(store.of("migrator"))
    assert store.admin.execute(STATE).fetchall() == before


def test_roles_may_connect_where_others_may_not(store: RoleStore) -> None:
    """Each by name, and not because everybody may."""
    database = store.url.rpartition("/")[2]
    store.admin.execute(f"REVOKE CONNECT ON DATABASE {database} FROM PUBLIC".encode())
    for kind in KINDS:
        store.connect(kind).close()
    make_roles(store.of("migrator"))


def test_psql_runs_it(postgres: PostgresServer, role_url: str, tmp_path: Path) -> None:
    script = at_hand(tmp_path, "migrate", "--roles", "--url", role_url).out
    done = subprocess.run(
        [postgres.binaries / "psql", "-X", "-v", "ON_ERROR_STOP=1", role_url],
        input=script,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.rstrip().endswith("COMMIT")


def test_administrator_who_is_no_superuser(postgres: PostgresServer) -> None:
    """As hosted servers have it: may create roles, and owns the database."""
    with psycopg.connect(postgres.url, autocommit=True) as admin:
        admin.execute("CREATE ROLE hoster LOGIN CREATEROLE")
    url = postgres.create_database("hosted", "OWNER hoster").replace("tenure@", "hoster@")
    make_roles(url, "hosted_")
    with psycopg.connect(url, autocommit=True) as hoster:
        hoster.execute("ALTER ROLE hosted_migrator LOGIN")
        hoster.execute("ALTER ROLE hosted_node LOGIN")
    migrate(url.replace("hoster@", "hosted_migrator@"))
    make_roles(url, "hosted_")
    asyncio.run(PostgresBackend(url.replace("hoster@", "hosted_node@")).check_rights())


def test_printed_migrations_are_applied_by_the_migrator(role_url: str, tmp_path: Path) -> None:
    """Who owns the schema need not be allowed to create one."""
    store = RoleStore(role_url)
    script = at_hand(tmp_path, "migrate", "--sql", "--url", store.of("migrator"))
    with store.connect("migrator") as line:
        line.execute(script.out.encode())
    assert at_hand(tmp_path, "migrate", "--check", "--url", store.of("reader")).code == 0
    store.close()


def test_migrator_goes_on_from_an_older_version(
    role_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made by another role: what that has made goes over to it."""
    known = known_migrations("tenure.backends.postgres")
    newer = (known[-1][0] + 1, "newer", "CREATE TABLE {schema}.newer (id bigint)")
    monkeypatch.setattr(migrations, "migrations", lambda package: [*known, newer])
    with psycopg.connect(role_url, autocommit=True) as line:
        if not line.execute("SELECT 1 FROM pg_roles WHERE rolname = 'first_owner'").fetchone():
            line.execute("CREATE ROLE first_owner")
        database = role_url.rpartition("/")[2]
        line.execute(f"GRANT CREATE ON DATABASE {database} TO first_owner".encode())
        line.execute("SET ROLE first_owner")
        line.execute(migrations.as_sql(known, "tenure").sql.encode())
    store = RoleStore(role_url)
    answer = at_hand(tmp_path, "migrate", "--url", store.of("migrator"))
    assert answer.code == 0, answer
    # Default privileges: nodes need not wait for the script to be run again.
    asyncio.run(PostgresBackend(store.of("node")).check_rights())
    make_roles(store.of("migrator"))
    owners = store.admin.execute(
        "SELECT DISTINCT relowner::regrole::text FROM pg_class"
        " WHERE relnamespace = 'tenure'::regnamespace"
    ).fetchall()
    assert owners == [("tenure_migrator",)]
    for kind in ("node", "editor", "reader"):
        found = rights_of(store.of(kind), tmp_path)
        assert found["severity"] == "ok", found
    store.close()


def test_what_others_put_into_the_schema_is_left_to_them(store: RoleStore) -> None:
    """A function that runs with its owner's rights would get those of the migrator."""
    store.admin.execute("CREATE ROLE mallory LOGIN")
    store.admin.execute("GRANT CREATE, USAGE ON SCHEMA tenure TO mallory")
    with psycopg.connect(store.url.replace("tenure@", "mallory@"), autocommit=True) as mallory:
        mallory.execute(
            "CREATE FUNCTION tenure.hers() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'"
        )
        mallory.execute("CREATE VIEW tenure.trap AS SELECT 1 AS a")
    remarks = make_roles(store.url)
    assert sum("belongs to mallory, not to Tenure" in remark for remark in remarks) == 2
    owner = "SELECT proowner::regrole::text FROM pg_proc WHERE proname = 'hers'"
    assert store.admin.execute(owner).fetchall() == [("mallory",)]
    with store.connect("reader") as reader, pytest.raises(InsufficientPrivilege):
        reader.execute("SELECT * FROM tenure.trap")
