"""A role that may create functions in the schema `public`: all may, if a server was upgraded from
before version 15.

She has no right on Tenure's tables. What she puts there has the names of the system's functions and
operators, with argument types that fit better than theirs. A session that looks there calls hers
instead, with rights of its own, which grants her all she wants.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy
from click.testing import CliRunner

from tenure import Event, Leases, Scheduler, every
from tenure.cli import main
from tests.faults.postgres import missing, running_server
from tests.faults.support import until
from tests.support.pgbouncer import PgBouncer, find_pgbouncer
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults

_BODY = (
    "LANGUAGE plpgsql AS $$ BEGIN"
    " EXECUTE 'GRANT ALL ON ALL TABLES IN SCHEMA tenure TO mallory';"
    " RETURN {answer}; END $$"
)
TRAPS = (
    # count(any) is the system's. An aggregate of hers, of the very type.
    f"CREATE FUNCTION public.hers(bigint, bigint) RETURNS bigint {_BODY.format(answer='0')}",
    "CREATE AGGREGATE public.count(bigint) (sfunc = public.hers, stype = bigint, initcond = 0)",
    # text || anynonarray is the system's, and so is numeric * numeric.
    f"CREATE FUNCTION public.hers(text, bigint) RETURNS text {_BODY.format(answer='$1')}",
    f"CREATE FUNCTION public.hers(numeric, integer) RETURNS numeric {_BODY.format(answer='$1')}",
    "CREATE OPERATOR public.|| (function = public.hers, leftarg = text, rightarg = bigint)",
    "CREATE OPERATOR public.* (function = public.hers, leftarg = numeric, rightarg = integer)",
    # The very types of the system's: for those whose search path has the system's schema last.
    f"CREATE FUNCTION public.now() RETURNS timestamptz {_BODY.format(answer='pg_catalog.now()')}",
    f"CREATE FUNCTION public.hers(text, text) RETURNS boolean {_BODY.format(answer='true')}",
    "CREATE OPERATOR public.= (function = public.hers, leftarg = text, rightarg = text)",
    f"CREATE FUNCTION public.hers(integer, integer) RETURNS boolean {_BODY.format(answer='true')}",
    "CREATE OPERATOR public.>= (function = public.hers, leftarg = integer, rightarg = integer)",
    # unnest(anyarray) is the system's.
    """
    CREATE FUNCTION public.unnest(timestamptz[]) RETURNS SETOF timestamptz LANGUAGE plpgsql AS $$
    BEGIN
        EXECUTE 'GRANT ALL ON ALL TABLES IN SCHEMA tenure TO mallory';
        RETURN QUERY SELECT pg_catalog.unnest($1);
    END $$
    """,
)
GOT_IN = "SELECT has_table_privilege('mallory', 'tenure.schedule', 'SELECT')"


def nothing() -> None: ...


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server() as server:
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute("CREATE ROLE mallory LOGIN")
        yield server


@pytest.fixture(scope="module")
def pooler(server: PostgresServer) -> Iterator[PgBouncer]:
    program = find_pgbouncer()
    if program is None:
        missing("pgbouncer is not installed: apt-get install pgbouncer")
    with PgBouncer(program, server.port) as pooler:
        yield pooler


class Victim:
    """A database in which somebody has laid traps."""

    def __init__(self, server: PostgresServer) -> None:
        self.url = server.create_database("trapped")
        self.name = self.url.rpartition("/")[2]
        self.port = server.port
        self.admin: psycopg.Connection[Any] = psycopg.connect(self.url, autocommit=True)

    def lay(self, *traps: str) -> None:
        self.admin.execute("GRANT CREATE ON SCHEMA public TO mallory")
        with psycopg.connect(self.url.replace("tenure@", "mallory@"), autocommit=True) as mallory:
            for trap in traps or TRAPS:
                mallory.execute(trap)

    def through(self, port: int) -> str:
        return self.url.replace(str(self.port), str(port))

    def made(self, url: str | None = None) -> Scheduler:
        """Its tables exist, and a schedule."""
        scheduler = Scheduler(url or self.url, ttl=5.0)
        scheduler.task(nothing)
        scheduler.add("a", every(seconds=1), task=nothing)
        return scheduler

    def got_in(self) -> bool:
        row = self.admin.execute(GOT_IN).fetchone()
        assert row is not None
        return bool(row[0])

    def runs(self) -> int:
        row = self.admin.execute("SELECT pg_catalog.count(*) FROM tenure.run").fetchone()
        assert row is not None
        return int(row[0])


@pytest.fixture
def victim(server: PostgresServer) -> Iterator[Victim]:
    victim = Victim(server)
    try:
        yield victim
    finally:
        victim.admin.close()


def test_the_traps_work_on_those_who_look_there(victim: Victim) -> None:
    """Otherwise this file shows nothing."""
    victim.made().stop()
    for number, text in enumerate(
        (
            "SELECT count(v) FROM (VALUES (1::bigint)) AS t (v)",
            "SELECT 'schedule:' || 1::bigint",
            "SELECT 'a'::text || 1::bigint",
            "SELECT extract(epoch FROM pg_catalog.now()) * 1000000",
            "SELECT unnest(ARRAY[pg_catalog.now()])",
            "SET search_path = public, pg_catalog; SELECT now()",
            "SET search_path = public, pg_catalog; SELECT 'a'::text = 'b'::text",
            "SET search_path = public, pg_catalog; SELECT 2 >= 1",
        )
    ):
        if not number:
            victim.lay()
        assert not victim.got_in()
        with psycopg.connect(victim.url) as unwary:
            unwary.execute(text)
        assert victim.got_in(), text
        victim.admin.execute("REVOKE ALL ON ALL TABLES IN SCHEMA tenure FROM mallory")


@pytest.mark.parametrize("way", ["own", "pooled"])
def test_a_node_calls_none_of_it(victim: Victim, way: str, request: pytest.FixtureRequest) -> None:
    url = victim.url
    if way == "pooled":
        url = victim.through(request.getfixturevalue("pooler").port)
    victim.lay()  # before the tables are made
    victim.admin.execute(f"ALTER DATABASE {victim.name} SET search_path = public, pg_catalog")
    scheduler = victim.made(url)
    with Leases(url) as leases:  # on the calling thread too
        lease = leases.acquire("job")
        assert lease is not None
        assert lease.renew()
        lease.release()
    scheduler.start()
    try:
        until(lambda: victim.runs() > 1, "it fires")
        scheduler.pause("a")
        scheduler.resume("a")
        scheduler.run_now("a")
    finally:
        scheduler.stop()
    assert not victim.got_in()


PATHS = ('"$user", public', "public, pg_catalog", "pg_catalog, public")


@pytest.mark.parametrize("path", PATHS)
def test_a_call_inside_the_users_transaction_calls_none_of_it(victim: Victim, path: str) -> None:
    scheduler = victim.made()
    victim.lay()
    try:
        with psycopg.connect(victim.url) as connection:
            connection.execute(f"SET search_path = {path}")
            connection.commit()
            now = scheduler.get("a").created_at
            scheduler.add("b", every(hours=1), task=nothing, connection=connection)
            scheduler.update("b", retries=2, connection=connection)
            scheduler.pause("a", connection=connection)
            scheduler.resume("a", connection=connection)
            scheduler.run_now("b", connection=connection)
            scheduler.backfill("a", start=now, end=now, connection=connection)
            scheduler.remove("b", connection=connection)
            row = connection.execute("SHOW search_path").fetchone()
            assert row == (path,)  # as it was
            connection.commit()
        assert not victim.got_in()
    finally:
        scheduler.stop()


@pytest.mark.parametrize("path", PATHS)
def test_the_functions_for_sql_call_none_of_it(victim: Victim, path: str) -> None:
    victim.made().stop()
    victim.lay()
    with psycopg.connect(victim.url) as connection:
        connection.execute(f"SET search_path = {path}")
        for call in (
            "add_schedule('b', 'every 5m', 'nothing')",
            "pause_schedule('a')",
            "resume_schedule('a')",
            "run_now('b')",
            "rename_schedule('b', 'c')",
            "remove_schedule('c')",
            "add_event_schedule('e', 'every 5m', 'news', 'Said', key => 'k')",
            "run_now('e', key => 'once')",
            "emit('news', 'Said', '1', key => 'k', headers => '{\"a\": \"b\"}')",
            "enqueue('nothing', key => 'once', lock => 'key', tenant => 'acme')",
            "enqueue('nothing', key => 'once', lock => 'key', tenant => 'acme')",
            "cancel_run((SELECT pg_catalog.min(id) FROM tenure.run))",
            "retry_run((SELECT pg_catalog.min(id) FROM tenure.run))",
            "clear_lock('key')",
            "replay_parked('r')",
            "drop_parked('r')",
        ):
            connection.execute(f"SELECT tenure.{call}")
        connection.commit()
    assert not victim.got_in()


@pytest.mark.parametrize("path", PATHS)
def test_the_views_call_none_of_it(victim: Victim, path: str) -> None:
    victim.lay()  # before they are made
    scheduler = victim.made()
    scheduler.run_now("a")
    scheduler.stop()
    with psycopg.connect(victim.url) as connection:
        connection.execute(f"SET search_path = {path}")
        views = connection.execute(
            "SELECT viewname FROM pg_catalog.pg_views"
            " WHERE schemaname OPERATOR(pg_catalog.=) 'tenure'"
        ).fetchall()
        assert len(views) >= 8
        for (view,) in views:
            connection.execute(f"SELECT * FROM tenure.{view}")
        connection.commit()
    assert not victim.got_in()


@pytest.mark.parametrize("path", PATHS)
def test_the_fence_in_the_users_transaction_calls_none_of_it(victim: Victim, path: str) -> None:
    victim.made().stop()
    victim.lay()
    with Leases(victim.url) as leases, leases.hold("job") as lease:
        for _ in range(2):
            with psycopg.connect(victim.url) as connection:
                connection.execute(f"SET search_path = {path}")
                lease.fence(connection)
    assert not victim.got_in()


@pytest.mark.parametrize("way", ["own", "pooled"])
def test_a_copy_calls_none_of_it(
    victim: Victim, way: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = victim.url
    if way == "pooled":
        url = victim.through(request.getfixturevalue("pooler").port)
    scheduler = victim.made()
    scheduler.run_now("a")
    scheduler.emit(Event("news", "Said", 1, key="k"))
    scheduler.stop()
    victim.lay()
    file = f"sqlite:///{tmp_path}/copy.db"
    _tenure("copy", url, file)
    assert not victim.got_in()
    # And back, into an empty database with the same traps.
    victim.admin.execute("DROP SCHEMA tenure CASCADE; CREATE SCHEMA tenure")
    victim.admin.execute(f"ALTER DATABASE {victim.name} SET search_path = public, pg_catalog")
    _tenure("copy", file, url)
    assert victim.runs() == 1
    assert not victim.got_in()


@pytest.mark.parametrize("path", PATHS)
def test_runs_and_events_call_none_of_it(victim: Victim, path: str) -> None:
    """Also the consumer's own session, and an engine's that is lent to tasks."""
    scheduler = victim.made()
    victim.lay()
    victim.admin.execute(f"ALTER DATABASE {victim.name} SET search_path = {path}")
    engine = sqlalchemy.create_engine(victim.url.replace("postgresql:", "postgresql+psycopg:"))
    lent = Scheduler(engine, ttl=5.0)
    done: list[int] = []

    @lent.task(transactional=True)
    def books(connection: sqlalchemy.Connection) -> None:
        done.append(1)

    def fail() -> None:
        raise ValueError

    lent.task(fail)
    try:
        with psycopg.connect(victim.url) as connection:
            scheduler.emit(Event("news", "Said", 1, key="k"), connection=connection)
            scheduler.enqueue(nothing, connection=connection)
            connection.commit()
        cancelled = scheduler.enqueue(nothing)
        scheduler.cancel(cancelled)
        scheduler.emit(Event("news", "Said", 2))
        with lent:
            failed = lent.enqueue(fail)
            lent.enqueue(books)
            until(lambda: done, "it commits with its task")
            until(lambda: lent.get_run(failed).state == "failed", "it has failed")
            lent.retry(failed)
            with scheduler.consumer("news", group="readers", limit=1, wait=20) as consumer:
                for batch in consumer:
                    with batch.transaction():
                        break
                with psycopg.connect(victim.url) as connection:
                    assert consumer.take(connection)
        assert not victim.got_in()
    finally:
        scheduler.stop()
        engine.dispose()


def _tenure(*arguments: str) -> None:
    answer = CliRunner().invoke(main, arguments)
    assert answer.exit_code == 0, answer.output


def test_every_function_of_ours_has_a_search_path_of_its_own(victim: Victim) -> None:
    victim.made().stop()
    rows = victim.admin.execute(
        "SELECT proname, proconfig FROM pg_proc WHERE pronamespace = 'tenure'::regnamespace"
    ).fetchall()
    assert len(rows) >= 7
    for name, settings in rows:
        assert settings == ["search_path=pg_catalog, pg_temp"], name
