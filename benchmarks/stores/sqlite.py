"""SQLite: a file."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import datetime
from pathlib import Path

from benchmarks.stores.base import OWN_COLUMNS, Place, Store, file_system
from tenure import Scheduler
from tenure.backends.sqlite import SQLiteBackend
from tenure.process.clock import to_micros


class SQLite(Store):
    """A file in a temporary folder, with the settings that Tenure uses."""

    name = "sqlite"
    yardstick = "bare upsert + update"
    idle_standby: float | None = 3.0
    skips: Mapping[str, str] = {
        "cut": "there is no network to a file",
        "crowd": "there is no server to a file",
        "cost": "there is no server to a file",
    }

    def facts(self) -> dict[str, str]:
        folder = self.directory or Path(tempfile.gettempdir())
        return {
            "SQLite": f"{sqlite3.sqlite_version}, WAL, synchronous=FULL",
            "file system": file_system(folder),
        }

    @contextmanager
    def place(self) -> Iterator[Place]:
        with tempfile.TemporaryDirectory(prefix="tenure-bench-", dir=self.directory) as folder:
            yield Place(f"sqlite:///{folder}/bench.db")

    @contextmanager
    def bare_pairs(self, place: Place) -> Iterator[Callable[[], None]]:
        with closing(_connect(place.url)) as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS bare_lock (name TEXT PRIMARY KEY, holder TEXT,"
                " term INTEGER NOT NULL, expires REAL NOT NULL) WITHOUT ROWID"
            )

            def pair() -> None:
                now = time.monotonic()
                taken = connection.execute(
                    "INSERT INTO bare_lock VALUES ('bench', 'me', 1, :expires)"
                    " ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, term = term + 1,"
                    " expires = excluded.expires WHERE holder IS NULL OR expires <= :now",
                    {"now": now, "expires": now + 30},
                )
                freed = connection.execute(
                    "UPDATE bare_lock SET holder = NULL WHERE name = 'bench' AND holder = 'me'"
                )
                assert taken.rowcount == freed.rowcount == 1

            yield pair

    def bare_firing(self, url: str, batch: int, *, events: bool = False) -> int:
        statements = (*_PICK, *(_BARE_EVENTS if events else _BARE_RUNS), _MOVE_ON)
        with closing(_connect(url)) as connection:
            connection.execute(
                "CREATE TEMP TABLE picked (n INTEGER PRIMARY KEY, uid INTEGER, nominal INTEGER)"
            )
            moved = 0
            while True:
                connection.execute("BEGIN IMMEDIATE")
                (base,) = connection.execute(
                    "SELECT coalesce(max(id), 0) FROM tenure_run"
                ).fetchone()
                values = {"now": int(time.time() * 1_000_000), "batch": batch, "base": base}
                counts = [connection.execute(sql, values).rowcount for sql in statements]
                connection.execute("COMMIT")
                if counts[-1] == 0:
                    return moved
                moved += counts[-1]

    def multiply(self, url: str, plans: Sequence[tuple[str, datetime]], copies: int) -> None:
        with closing(_connect(url)) as connection:
            columns = connection.execute("SELECT name FROM pragma_table_info('tenure_schedule')")
            same = ", ".join(f'"{c}"' for (c,) in columns if c not in ("uid", *OWN_COLUMNS))
            own = ", ".join(f'"{column}"' for column in OWN_COLUMNS)
            connection.execute(
                'CREATE TEMP TABLE plan (number INTEGER PRIMARY KEY, "trigger" TEXT, due INTEGER)'
            )
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                'INSERT INTO temp.plan ("trigger", due) VALUES (?, ?)',
                [(trigger, to_micros(due)) for trigger, due in plans],
            )
            connection.execute(
                "WITH RECURSIVE copies (copy) AS"
                " (SELECT 1 UNION ALL SELECT copy + 1 FROM copies WHERE copy < ?)"
                f" INSERT INTO tenure_schedule ({own}, {same})"
                " SELECT 'copy-' || copy || '-' || number, plan.\"trigger\", 'copy-' || copy || '-'"
                f" || number, due, due, {same}"
                f" FROM copies, temp.plan, (SELECT {same} FROM tenure_schedule)",
                [copies],
            )
            connection.execute("DELETE FROM tenure_schedule WHERE name NOT LIKE 'copy-%'")
            connection.execute("COMMIT")

    def execute(self, url: str, statements: str) -> None:
        with closing(_connect(url)) as connection:
            connection.executescript(f"BEGIN IMMEDIATE; {statements}; COMMIT")

    def ago(self, seconds: str, whole: int = 0) -> str:
        moment = f"CAST({int(time.time() * 1_000_000)} - ({seconds}) * 1000000 AS INTEGER)"
        return f"{moment} / {whole}000000 * {whole}000000" if whole else moment

    def tidy(self, url: str) -> None:
        with closing(_connect(url)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def sizes(self, url: str) -> dict[str, int]:
        path = Path(url.removeprefix("sqlite:///"))
        log = path.with_name(f"{path.name}-wal")
        return {"tables": path.stat().st_size, "WAL": log.stat().st_size if log.exists() else 0}

    def queries(self, scheduler: Scheduler) -> int:
        store = scheduler._runtime._backend
        assert isinstance(store, SQLiteBackend)
        return store.queries

    def no_write(self, place: Place) -> AbstractContextManager[None]:
        return write_lock(place.url)


@contextmanager
def write_lock(url: str) -> Iterator[None]:
    """While this is held, nobody else is inside a write."""
    with closing(_connect(url)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


def _connect(url: str) -> sqlite3.Connection:
    path = url.removeprefix("sqlite:///")
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA cache_size = -16000")
    return connection


_PICK = (
    "DELETE FROM picked",
    """INSERT INTO picked (uid, nominal) SELECT uid, next_nominal FROM tenure_schedule
       WHERE namespace = 'default' AND active = 1 AND next_due IS NOT NULL AND next_due <= :now
       ORDER BY next_due LIMIT :batch""",
)
_BARE_RUNS = (
    """INSERT INTO tenure_run (id, namespace, schedule, schedule_uid, kind, key, nominal, task,
           kwargs, state, due, attempt, crashes, lock, priority, timeout, retries, on_crash, term,
           created_at)
       SELECT :base + n, namespace, name, uid, 'planned', nominal, nominal, task, kwargs,
           'waiting', nominal, 0, 0, lock, priority, timeout, retries, on_crash, 1, :now
       FROM picked JOIN tenure_schedule USING (uid)""",
    """INSERT INTO tenure_occurrence
           (schedule_uid, kind, key, nominal, last, state, recorded_at, term, run_id)
       SELECT uid, 'planned', nominal, nominal, nominal, 'fired', :now, 1, :base + n FROM picked""",
)
_BARE_EVENTS = (
    """INSERT INTO tenure_event
           (namespace, id, topic, type, key, subject, time, data, headers, recorded_at)
       SELECT namespace, uid || '/planned/' || nominal, topic, event_type, event_key, name,
           nominal, event_data, event_headers, :now
       FROM picked JOIN tenure_schedule USING (uid)""",
    """INSERT INTO tenure_occurrence
           (schedule_uid, kind, key, nominal, last, state, recorded_at, term)
       SELECT uid, 'planned', nominal, nominal, nominal, 'fired', :now, 1 FROM picked""",
)
_MOVE_ON = """UPDATE tenure_schedule
    SET next_nominal = next_nominal + 604800000000, next_due = next_due + 604800000000
    WHERE uid IN (SELECT uid FROM picked)"""
