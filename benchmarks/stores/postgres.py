"""PostgreSQL: a server of our own, durable, with its default settings, that has been in use.

A new server makes a file for every 16 MB of its log, and all commits wait some 60 ms until that is
on disk. Later on, checkpoints hand it its old files again. At 4,000 runs a second, new files came
every two seconds and made nearly all of p99.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Self

import psycopg

from benchmarks.processors import family_seconds
from benchmarks.stores.base import OWN_COLUMNS, Place, Store, Usage, file_system
from tenure import Scheduler
from tenure.backends.postgres import PostgresBackend
from tests.support.servers import PostgresServer

LOG_FILES = 64
"""As many as `max_wal_size` lets there be, by default."""


class Postgres(Store):
    """Every place is a database of its own on one server."""

    name = "postgres"
    yardstick = "bare upsert + update"
    hint = "its session on the server is gone"
    apart = True
    idle_standby: float | None = 3.0
    snapshots = True
    takeover, takeover_inside = 0.05, 0.15
    skips: Mapping[str, str] = {"startup": "it is the same with every store"}

    def __init__(self, directory: Path | None = None, connections: int = 200) -> None:
        super().__init__(directory)
        self._connections = connections

    def __enter__(self) -> Self:
        self._server = PostgresServer(
            directory=self.directory, max_connections=str(self._connections)
        )
        try:
            self._server.start()
        except BaseException:
            self._server.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.close()

    def wear_in(self) -> None:
        message = "SELECT pg_logical_emit_message(true, 'bench', ''), pg_switch_wal()"
        with psycopg.connect(self._server.url, autocommit=True) as connection:
            for _ in range(LOG_FILES):
                connection.execute(message)
            connection.execute("CHECKPOINT")

    def facts(self) -> dict[str, str]:
        with psycopg.connect(self._server.url) as connection:
            names = ("server_version", "fsync", "synchronous_commit")
            shown = [connection.execute(f"SHOW {name}").fetchone() for name in names]
        version, fsync, commit = (str(row[0]) if row else "?" for row in shown)
        return {
            "PostgreSQL": f"{version}, fsync={fsync}, synchronous_commit={commit}",
            "psycopg": psycopg.__version__,
            "file system": file_system(self.directory or Path(tempfile.gettempdir())),
        }

    @contextmanager
    def place(self) -> Iterator[Place]:
        url = self._server.create_database("bench")
        yield Place(url, port=self._server.port)
        name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
        with psycopg.connect(self._server.url, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')

    @contextmanager
    def bare_pairs(self, place: Place) -> Iterator[Callable[[], None]]:
        with psycopg.connect(place.url, autocommit=True) as connection:
            connection.execute(
                "CREATE TABLE bare_lock (name text PRIMARY KEY, holder text,"
                " term bigint NOT NULL, expires timestamptz NOT NULL) WITH (fillfactor = 50)"
            )
            values = {"name": "bench", "holder": "me", "ttl": 30.0}

            def pair() -> None:
                taken = connection.execute(
                    "INSERT INTO bare_lock AS lock VALUES (%(name)s, %(holder)s, 1,"
                    " now() + make_interval(secs => %(ttl)s)) ON CONFLICT (name) DO UPDATE"
                    " SET holder = excluded.holder, term = lock.term + 1,"
                    " expires = excluded.expires"
                    " WHERE lock.holder IS NULL OR lock.expires <= now()",
                    values,
                )
                freed = connection.execute(
                    "UPDATE bare_lock SET holder = NULL"
                    " WHERE name = %(name)s AND holder = %(holder)s",
                    values,
                )
                assert taken.rowcount == freed.rowcount == 1

            yield pair

    def bare_firing(self, url: str, batch: int, *, events: bool = False) -> int:
        statement = _BARE_FIRING.format(rows=_BARE_EVENTS if events else _BARE_RUNS)
        with psycopg.connect(url, autocommit=True) as connection:
            moved = 0
            while count := connection.execute(statement.encode(), {"batch": batch}).rowcount:
                moved += count
        return moved

    def multiply(self, url: str, plans: Sequence[tuple[str, datetime]], copies: int) -> None:
        with psycopg.connect(url) as connection:
            names = connection.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_name ="
                " 'schedule' AND table_schema = 'tenure' AND column_name <> ALL(%s)",
                [["uid", *OWN_COLUMNS]],
            )
            same = ", ".join(name for (name,) in names)
            connection.execute(
                "CREATE TEMP TABLE plan (number serial, trigger text, due timestamptz)"
            )
            copy = "COPY plan (trigger, due) FROM STDIN"
            with connection.cursor().copy(copy) as lines:
                for plan in plans:
                    lines.write_row(plan)
            connection.execute(
                f"INSERT INTO tenure.schedule ({', '.join(OWN_COLUMNS)}, {same})"
                f" SELECT name, plan.trigger, name, due, due, {same}"
                f" FROM (SELECT {same} FROM tenure.schedule) AS one, plan,"
                " generate_series(1, %s) AS copy,"
                " LATERAL (SELECT 'copy-' || copy || '-' || number AS name)"
                " ORDER BY copy, number",
                [copies],
            )
            connection.execute("DELETE FROM tenure.schedule WHERE name NOT LIKE 'copy-%'")

    def execute(self, url: str, statements: str) -> None:
        with psycopg.connect(url) as connection:
            connection.execute(statements.encode())

    def ago(self, seconds: str, whole: int = 0) -> str:
        moment = f"now() - ({seconds}) * interval '1 second'"
        return f"date_bin('{whole} s', {moment}, '2000-01-01Z')" if whole else moment

    def tidy(self, url: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")

    def roomy(self, connections: int) -> Store:
        return Postgres(self.directory, connections)

    def sizes(self, url: str) -> dict[str, int]:
        with psycopg.connect(url) as connection:
            [row] = connection.execute(_SIZES)
        return {"tables": int(row[0]), "WAL": int(row[1])}

    def usage(self, url: str) -> Usage:
        assert self._server.process is not None
        with psycopg.connect(url) as connection:
            [row] = connection.execute(_USAGE)
            tables = connection.execute(_UPDATES).fetchall()
        transactions, logged, connections = map(int, row)
        updates = {name: (int(all_of_them), int(hot)) for name, all_of_them, hot in tables}
        seconds = family_seconds(self._server.process.pid)
        return Usage(seconds, transactions, logged, connections, updates)

    @contextmanager
    def snapshot(self, url: str) -> Iterator[None]:
        with psycopg.connect(url) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.execute("SELECT count(*) FROM pg_class")
            yield

    @contextmanager
    def inside(self, place: Place) -> Iterator[Callable[[int], bool]]:
        with psycopg.connect(place.url, autocommit=True) as connection:

            def ask(term: int) -> bool:
                # So its transactions are named: see `enter` in office.sql.
                asked = {"name": f"tenure leader {term}"}
                return bool(connection.execute(_INSIDE, asked, prepare=True).fetchone())

            yield ask

    def queries(self, scheduler: Scheduler) -> int:
        store = scheduler._runtime._backend
        assert isinstance(store, PostgresBackend)
        return store.queries


_SIZES = """
SELECT coalesce(sum(pg_total_relation_size(oid)), 0), (SELECT sum(size) FROM pg_ls_waldir())
FROM pg_class WHERE relnamespace = 'tenure'::regnamespace AND relkind IN ('r', 'p')
"""
_USAGE = """
SELECT d.xact_commit + d.xact_rollback, pg_current_wal_lsn() - '0/0',
    (SELECT count(*) FROM pg_stat_activity a WHERE a.datname = d.datname
        AND a.backend_type = 'client backend' AND a.pid <> pg_backend_pid())
FROM pg_stat_database d WHERE d.datname = current_database()
"""
_INSIDE = """
SELECT 1 FROM pg_stat_activity
WHERE datname = current_database() AND application_name = %(name)s AND xact_start IS NOT NULL
"""
_UPDATES = """
SELECT relname, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE schemaname = 'tenure'
"""
_BARE_RUNS = """\
), runs AS (
    INSERT INTO tenure.run (namespace, schedule, schedule_uid, kind, key, nominal, task, kwargs,
        state, due, attempt, crashes, lock, priority, timeout, retries, on_crash, term, created_at)
    SELECT namespace, name, uid, 'planned', next_nominal::text, next_nominal, task, kwargs,
        'waiting', next_nominal, 0, 0, lock, priority, timeout, retries, on_crash, 1, now()
    FROM picked
    RETURNING id, schedule_uid, nominal
), occurrences AS (
    INSERT INTO tenure.occurrence
        (namespace, schedule_uid, kind, key, nominal, last, state, recorded_at, term, run_id)
    SELECT 'default', schedule_uid, 'planned', nominal::text, nominal, nominal, 'fired', now(), 1,
        id
    FROM runs
)
"""
_BARE_EVENTS = """\
), events AS (
    INSERT INTO tenure.event (namespace, id, topic, type, key, subject, time, data, headers,
        recorded_at)
    SELECT namespace, uid || '/planned/' || next_nominal, topic, event_type, event_key, name,
        next_nominal, event_data, event_headers, now()
    FROM picked
), occurrences AS (
    INSERT INTO tenure.occurrence
        (namespace, schedule_uid, kind, key, nominal, last, state, recorded_at, term)
    SELECT 'default', uid, 'planned', next_nominal::text, next_nominal, next_nominal, 'fired',
        now(), 1
    FROM picked
)
"""
_BARE_FIRING = """
WITH picked AS (
    SELECT * FROM tenure.schedule
    WHERE namespace = 'default' AND active AND next_due IS NOT NULL AND next_due <= now()
    ORDER BY next_due LIMIT %(batch)s
{rows}UPDATE tenure.schedule s
SET next_nominal = s.next_nominal + interval '7 days', next_due = s.next_due + interval '7 days'
FROM picked WHERE s.uid = picked.uid
"""
