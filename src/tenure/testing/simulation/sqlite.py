"""The real SQLite backend under the same faults: its own statements, on a real file.

Each simulated process has a backend of its own, with connections of its own. What differs from a
real process is handed to the backend as its *machine*: calls are executed at once instead of on a
thread, a dead process is one that the simulation killed, wake-ups travel with the network, and
nothing waits for the disk. A process can die between two statements of a transaction.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

from tenure.backends.base import Backend
from tenure.backends.memory.wakeups import MemoryWakeups
from tenure.backends.shared import attempt_rows, event_rows
from tenure.backends.shared import rows as from_rows
from tenure.backends.shared.sql import load
from tenure.backends.sqlite import SQLiteBackend
from tenure.backends.sqlite import migrate as migrations
from tenure.backends.sqlite.connection import Connection
from tenure.backends.sqlite.locks.lockfile import LockFile
from tenure.backends.sqlite.machine import Machine
from tenure.backends.sqlite.wakeups import SQLiteWakeups
from tenure.model import Attempt, Occurrence, RunRecord, RunState
from tenure.process.clock import SystemClock, from_micros
from tenure.process.threads import Threads
from tenure.testing.simulation.history import (
    ATTEMPT,
    EMITTED,
    GONE,
    OCCURRENCE,
    PRUNED,
    RUN,
    UNMARKED,
)
from tenure.testing.simulation.loop import Process
from tenure.testing.simulation.store import Row, StoreClock

T = TypeVar("T")
_run = partial(from_rows.run, when=from_micros)
_occurrence = partial(from_rows.occurrence, when=from_micros)
_attempt = partial(attempt_rows.attempt, when=from_micros)
_schedule = partial(from_rows.schedule, when=from_micros)
_logged = partial(event_rows.logged, when=from_micros)

_sql = load("tenure.testing.simulation", "sqlite.sql")


class OnSQLite:
    """A database of its own for each history, and a backend for each process."""

    name = "sqlite"

    def __init__(self, clock: StoreClock, proofs: bool) -> None:
        self.watch: Callable[[int], None] | None = None
        self._clock = clock
        self._folder = tempfile.TemporaryDirectory(prefix="tenure-simulation-")
        self._path = Path(self._folder.name) / "tenure.db"
        self._path.write_bytes(_template())
        self._wakeups = MemoryWakeups()
        self._processes: list[Process] | None = [] if proofs else None
        self._backends: dict[str, Backend] = {}
        self._connections: list[Connection] = []
        self._factory = _with_hook(self)
        self._own = sqlite3.connect(self._path, isolation_level=None)
        self._own.row_factory = sqlite3.Row
        self._read_to = 0
        self._runs: dict[int, RunRecord] = {}
        self._occurrences: dict[tuple[Any, ...], Occurrence] = {}
        self._attempts: dict[tuple[int, int], Attempt] = {}

    def of(self, process: Process) -> Backend:
        backend = self._backends.get(process.name)
        if backend is None:
            machine = Machine(
                connection=self._connect,
                lock_file=lambda _: _LockFile(process, self._processes),
                shared_locks=lambda _: None,
                wakeups=lambda lock_file, clock: _Wakeups(lock_file, clock, self._wakeups),
                threads=_Inline,
                boot="simulation",
            )
            backend = SQLiteBackend(self._path, clock=self._clock, machine=machine)
            process.context.copy().run(_at_once, backend.open())
            self._backends[process.name] = backend
        return backend

    def changes(self, op: str) -> Iterator[Row]:
        log = self._own.execute(_sql["log"], (self._read_to,)).fetchall()
        if not log:
            return
        self._read_to = log[-1]["n"]
        # What an operation did to runs and to occurrences is told in the same order on each medium.
        for _, _, run_id, _, _ in [line for line in log if line["what"] == "run gone"]:
            yield PRUNED, "run", self._runs.pop(run_id)
        for _, what, *key in [line for line in log if line["what"].startswith("occurrence")]:
            slot = tuple(key)
            if what == "occurrence":
                row = self._own.execute(_sql["occurrence"], slot).fetchone()
                occurrence = self._occurrences[slot] = _occurrence(row)
                yield OCCURRENCE, occurrence.state, occurrence
            else:
                yield PRUNED, "occurrence", self._occurrences.pop(slot)
        runs = dict.fromkeys(line["uid"] for line in log if line["what"] == "run")
        changed = [
            _run(row) for run_id in runs for row in self._own.execute(_sql["run"], (run_id,))
        ]
        # Results are recorded before runs are claimed, and may free their lock keys.
        changed.sort(key=lambda run: (run.state is RunState.CLAIMED, run.id))
        for run in changed:
            self._runs[run.id] = run
            yield RUN, run.state, run
        for line in [line for line in log if line["what"] == "event"]:
            for row in self._own.execute(_sql["event"], (line["uid"],)):
                yield EMITTED, "placed", _logged(row)
        attempted = [line for line in log if line["what"] == "attempt"]
        for slot in dict.fromkeys((line["uid"], line["kind"]) for line in attempted):
            row = self._own.execute(_sql["attempt"], slot).fetchone()
            if row is None:
                yield ATTEMPT, GONE, self._attempts.pop(slot)
            else:
                attempt = self._attempts[slot] = _attempt(row)
                yield ATTEMPT, attempt.outcome or "running", attempt
        for row in self._own.execute(_sql["unmarked"]):
            yield UNMARKED, op, _run(row)

    def state(self) -> dict[str, list[Any]]:
        schedules = self._own.execute(_sql["schedules"])
        runs = self._own.execute(_sql["runs"])
        return {"schedules": [_schedule(row) for row in schedules], "runs": [_run(r) for r in runs]}

    def hint(self, holders: set[str], *, proof: bool) -> bool:
        return proof and self._processes is not None  # the lock file tells, and never wrongly

    def unhint(self) -> None:
        pass

    def forget_leases(self) -> bool:
        return False

    def close(self) -> None:
        for connection in self._connections:
            connection.close_inherited()
        self._own.close()
        self._folder.cleanup()

    def _connect(self, path: Path, name: str) -> Connection:
        connection = Connection(path, name, threads=_Inline(name), factory=self._factory)
        self._connections.append(connection)
        return connection


class _Inline(Threads):
    """Everything is done at once, by whoever asks for it."""

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        return function(*args)

    def begin(self, function: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        future.set_result(function(*args))
        return future


class _LockFile(LockFile):
    """A process has its byte locked until it is dead. Without proofs: as where there are none."""

    def __init__(self, process: Process, processes: list[Process] | None) -> None:
        self.id = "simulation"
        self._process = process
        self._processes = processes

    def close(self) -> None:
        pass

    def take_slot(self) -> int | None:
        if self._processes is None:
            return None
        self._processes.append(self._process)
        return len(self._processes) - 1

    def affirm(self, slot: int | None) -> int | None:
        return slot

    def free_slot(self, slot: int) -> None:
        pass

    def is_free(self, slot: int) -> bool:
        return self._processes is not None and self._processes[slot].dead

    def wake(self, topic: str) -> None:
        pass

    def number(self, topic: str) -> bytes:
        return b""


class _Wakeups(SQLiteWakeups):
    """Brought by the network, which may lose them."""

    def __init__(self, lock_file: LockFile, clock: Any, shared: MemoryWakeups) -> None:
        super().__init__(lock_file, clock)
        self._shared = shared

    def subscribe(self, topic: str, callback: Callable[[], None]) -> Callable[[], None]:
        return self._shared.subscribe(topic, callback)

    def send(self, topic: str) -> None:
        self._shared.send(topic)


def _with_hook(medium: OnSQLite) -> type[sqlite3.Connection]:
    """Connections that ask before each statement of a transaction, and wait for no disk."""

    class Hooked(sqlite3.Connection):
        number = 0

        def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
            if sql.startswith("PRAGMA synchronous"):
                sql = "PRAGMA synchronous = OFF"
            self._ask(sql)
            return super().execute(sql, *args)

        def executemany(self, sql: str, *args: Any) -> sqlite3.Cursor:
            self._ask(sql)
            return super().executemany(sql, *args)

        def _ask(self, sql: str) -> None:
            if medium.watch is None or sql == "ROLLBACK":
                return
            self.number = self.number + 1 if self.in_transaction else 0
            if self.number:
                medium.watch(self.number)

    return Hooked


def _at_once(coroutine: Coroutine[Any, Any, None]) -> None:
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise RuntimeError("in a simulation the SQLite backend waits for nothing")


@lru_cache(maxsize=1)
def _template() -> bytes:
    """An empty database, up to date: made once, since the migrations take longer than a history."""
    with tempfile.TemporaryDirectory(prefix="tenure-simulation-") as folder:
        path = Path(folder) / "template.db"
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        migrations.apply(connection, SystemClock())
        connection.execute("COMMIT")
        for name, statement in _sql.items():
            if name.startswith("create"):
                connection.execute(statement)
        connection.close()
        return path.read_bytes()
