"""What the benchmarks must know about a store; all else goes through Tenure's own protocols.

Another store is another class of this shape, and an entry in `STORES`.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Protocol

from tenure import Scheduler
from tenure.backends.base import Backend
from tenure.backends.sqlite import SQLiteBackend
from tenure.clock import SystemClock
from tenure.stores import parse


class Store(Protocol):
    """One kind of store, on this machine."""

    name: str

    def facts(self) -> dict[str, str]:
        """What a reader must know of it to compare figures."""
        ...

    def fresh(self) -> AbstractContextManager[str]:
        """The URL of an empty store, which is gone afterwards."""
        ...

    def bare_pairs(self, url: str) -> AbstractContextManager[Callable[[], None]]:
        """The least that a lock can be on this store: an upsert that takes it if it is free, and
        an update that frees it; each durable on its own."""
        ...

    def bare_firing(self, url: str, batch: int) -> int:
        """The least that a firing can be: the same rows, written by set-based statements alone,
        `batch` in a transaction. Returns how many schedules were moved on."""
        ...

    def queries(self, scheduler: Scheduler) -> int:
        """How many round trips this scheduler has made to its store."""
        ...


def backend(url: str) -> Backend:
    """Tenure's backend for this URL, not open yet."""
    return parse(url, "default", SystemClock())()


class SQLite:
    """A file in a temporary folder, with the settings that Tenure uses."""

    name = "sqlite"

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory

    def facts(self) -> dict[str, str]:
        folder = self._directory or Path(tempfile.gettempdir())
        return {
            "SQLite": f"{sqlite3.sqlite_version}, WAL, synchronous=FULL",
            "file system": file_system(folder),
        }

    @contextmanager
    def fresh(self) -> Iterator[str]:
        with tempfile.TemporaryDirectory(prefix="tenure-bench-", dir=self._directory) as folder:
            yield f"sqlite:///{folder}/bench.db"

    @contextmanager
    def bare_pairs(self, url: str) -> Iterator[Callable[[], None]]:
        with closing(self._connect(url)) as connection:
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

    def bare_firing(self, url: str, batch: int) -> int:
        with closing(self._connect(url)) as connection:
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
                counts = [connection.execute(sql, values).rowcount for sql in _BARE_FIRING]
                connection.execute("COMMIT")
                if counts[-1] == 0:
                    return moved
                moved += counts[-1]

    def queries(self, scheduler: Scheduler) -> int:
        store = scheduler._core._backend
        assert isinstance(store, SQLiteBackend)
        return store.queries

    def _connect(self, url: str) -> sqlite3.Connection:
        connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA temp_store = MEMORY")
        return connection


_BARE_FIRING = (
    "DELETE FROM picked",
    """INSERT INTO picked (uid, nominal) SELECT uid, next_nominal FROM tenure_schedule
       WHERE namespace = 'default' AND active = 1 AND next_due IS NOT NULL AND next_due <= :now
       ORDER BY next_due LIMIT :batch""",
    """INSERT INTO tenure_run (id, namespace, schedule, schedule_uid, kind, key, nominal, task,
           kwargs, state, due, attempt, crashes, lock, priority, timeout, retries, on_crash, term,
           created_at)
       SELECT :base + n, namespace, name, uid, 'planned', nominal, nominal, task, kwargs,
           'waiting', nominal, 0, 0, lock, priority, timeout, retries, on_crash, 1, :now
       FROM picked JOIN tenure_schedule USING (uid)""",
    """INSERT INTO tenure_occurrence
           (schedule_uid, kind, key, nominal, last, state, recorded_at, term, run_id)
       SELECT uid, 'planned', nominal, nominal, nominal, 'fired', :now, 1, :base + n FROM picked""",
    """UPDATE tenure_schedule
       SET next_nominal = next_nominal + 86400000000, next_due = next_due + 86400000000
       WHERE uid IN (SELECT uid FROM picked)""",
)


def file_system(folder: Path) -> str:
    """The kind of file system that a folder is on."""
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    found = {fields[1]: fields[2] for fields in map(str.split, mounts)}
    folder = folder.resolve()
    for place in (folder, *folder.parents):
        if str(place) in found:
            return found[str(place)]
    return "unknown"


STORES: dict[str, Callable[[Path | None], Store]] = {"sqlite": SQLite}
