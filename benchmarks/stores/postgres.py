"""PostgreSQL: a server of our own, durable, with its default settings."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Self

import psycopg

from benchmarks.stores.base import OWN_COLUMNS, Place, Store, file_system
from tenure import Scheduler
from tenure.backends.postgres import PostgresBackend
from tests.support.servers import PostgresServer


class Postgres(Store):
    """Every place is a database of its own on one server."""

    name = "postgres"
    yardstick = "bare upsert + update"
    hint = "its session on the server is gone"
    apart = True

    def __init__(self, directory: Path | None = None) -> None:
        super().__init__(directory)
        self._numbers = count(1)

    def __enter__(self) -> Self:
        self._server = PostgresServer(directory=self.directory)
        try:
            self._server.start()
        except BaseException:
            self._server.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.close()

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
        name = f"bench_{next(self._numbers)}"
        yield Place(self._server.create_database(name), port=self._server.port)
        with psycopg.connect(self._server.url, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")

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

    def bare_firing(self, url: str, batch: int) -> int:
        with psycopg.connect(url, autocommit=True) as connection:
            moved = 0
            while count := connection.execute(_BARE_FIRING, {"batch": batch}).rowcount:
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

    def tidy(self, url: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")

    def queries(self, scheduler: Scheduler) -> int:
        store = scheduler._core._backend
        assert isinstance(store, PostgresBackend)
        return store.queries


_BARE_FIRING = """
WITH picked AS (
    SELECT * FROM tenure.schedule
    WHERE namespace = 'default' AND active AND next_due IS NOT NULL AND next_due <= now()
    ORDER BY next_due LIMIT %(batch)s
), runs AS (
    INSERT INTO tenure.run (namespace, schedule, schedule_uid, kind, key, nominal, task, kwargs,
        state, due, attempt, crashes, lock, priority, timeout, retries, on_crash, term, created_at)
    SELECT namespace, name, uid, 'planned', next_nominal::text, next_nominal, task, kwargs,
        'waiting', next_nominal, 0, 0, lock, priority, timeout, retries, on_crash, 1, now()
    FROM picked
    RETURNING id, schedule_uid, nominal
), occurrences AS (
    INSERT INTO tenure.occurrence
        (schedule_uid, kind, key, nominal, last, state, recorded_at, term, run_id)
    SELECT schedule_uid, 'planned', nominal::text, nominal, nominal, 'fired', now(), 1, id FROM runs
)
UPDATE tenure.schedule s
SET next_nominal = s.next_nominal + interval '7 days', next_due = s.next_due + interval '7 days'
FROM picked WHERE s.uid = picked.uid
"""
