"""Connections that are lent to transactional tasks on SQLite.

A file has one writer, and heartbeats, ticks and results are writes too. So one such transaction is
open at a time in a process, and it has a second. It begins when the task first uses its connection,
and takes the write lock at once: a transaction that reads first and writes later may find that it
can no longer write. When its time is up, another thread ends the statement that runs, rolls all of
it back and makes the connection read-only, whatever the task is doing: the lock is free, and
nothing that the task does later is written.

Nothing of a task is left for the next: temporary tables, functions, pragmas (task_transaction.py).
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from pathlib import Path

from tenure.backends.base import AsyncLentTransaction
from tenure.backends.shared.lending import Pauses, Places, only_writer
from tenure.backends.sqlite.connection import Connection
from tenure.backends.sqlite.task_transaction import Conclude, LentFile
from tenure.errors import ConfigError
from tenure.process.clock import SystemClock

BEGIN_WITHIN = 10.0
"""How many seconds a task waits for other writers of the file."""
LOOK_EVERY = 0.05
IDLE = 5.0
NO_COROUTINES = (
    "SQLite blocks: a coroutine would stop its loop at each statement. Declare it as a plain"
    " function (def), which runs on a thread; or use PostgreSQL."
)
_THREADS = 3  # as of DB-API 2: threads may share connections
_real = SystemClock()


class SQLiteLender:
    """Lends the right to write, for `hold` seconds."""

    def __init__(
        self,
        path: Path,
        own: tuple[Connection, ...],
        conclude: Conclude,
        hold: float,
    ) -> None:
        """`own`: the connections of the backend, which go first."""
        self._path = path
        self._own = own
        self._conclude = conclude
        self._hold = hold
        self._places = Places(1)
        self._pauses = Pauses(lambda: any(each.waits for each in own))
        self._watch = Watch()
        self._guard = threading.Lock()
        self._kept: LentFile | None = None
        """The one that the last task had, still open."""
        self._closed = False

    def refusal(self, *, coroutine: bool) -> str | None:
        if sqlite3.threadsafety < _THREADS:
            return "this build of SQLite cannot be used by two threads: use another Python."
        return NO_COROUTINES if coroutine else None

    @contextmanager
    def lend(self, limit: float | None) -> Iterator[LentFile]:
        left = self._places.take(limit)
        try:
            lent = self._taken() or LentFile(self._path, self._conclude)
            lent.lend(
                BEGIN_WITHIN if left is None else min(left, BEGIN_WITHIN),
                self._hold if left is None else min(left, self._hold),
                self._pauses.give_way,
                partial(self._take_back, lent),
            )
        except BaseException:
            self._places.give()
            raise
        with lent.ended():
            self._watch.over(lent)
            before = only_writer.set(lent)
            try:
                yield lent
            finally:
                only_writer.reset(before)

    def _take_back(self, lent: LentFile, took: float) -> None:
        """The transaction is over, and took so long. Its task may go on without one."""
        if lent.is_open:
            self._kept = lent
        if self._closed:
            self.close()
        if took:
            self._own[-1].writes += 1  # so that the log is copied back now and then
            self._pauses.after(took)
        self._places.give()

    def lend_async(self, limit: float | None) -> AbstractAsyncContextManager[AsyncLentTransaction]:
        raise ConfigError(NO_COROUTINES)

    def close(self) -> None:
        self._closed = True
        kept = self._taken()
        if kept is not None:
            kept.shut()

    def _taken(self) -> LentFile | None:
        with self._guard:
            kept, self._kept = self._kept, None
        return kept


class Watch:
    """A thread that looks at the open transaction every now and then: to start a timer for each
    would take longer than most of them do. It ends when there was none for a while."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._lent: LentFile | None = None
        self._watches = False

    def over(self, lent: LentFile) -> None:
        with self._guard:
            if not self._watches:
                threading.Thread(target=self._look, name="tenure-lent", daemon=True).start()
                self._watches = True
            self._lent = lent

    def _look(self) -> None:
        seen = None
        idle = 0
        while True:
            _real.block(LOOK_EVERY)
            with self._guard:
                lent = self._lent
                idle = idle + 1 if lent is seen else 0
                if idle * LOOK_EVERY > IDLE and (lent is None or lent.is_over):
                    self._watches, self._lent = False, None
                    return
            seen = lent
            if lent is not None and _real.monotonic() >= lent.until:
                lent.end_in_time()
