"""A SQLite connection on a thread of its own.

Each write is one `BEGIN IMMEDIATE` transaction: it has the write lock from its first statement, or
it changes nothing. This module waits for the lock itself, in small steps. SQLite's busy handler has
steps of up to 100 ms, too coarse for a scheduler, and cannot be told that the caller has given up:
a write could land after its timeout.
"""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from operator import methodcaller
from pathlib import Path
from typing import NoReturn, Protocol, TypeVar

from tenure.backends.address import Address
from tenure.backends.shared.lending import check_not_beside
from tenure.backends.sqlite import forks
from tenure.backends.urls import of_sqlite
from tenure.errors import ConfigError, SchemaMismatch, StoreError, StoreUnavailable, TenureError
from tenure.process.clock import SystemClock
from tenure.process.threads import Threads

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

OLDEST_SQLITE = (3, 33, 0)
BUSY_AFTER = 5.0
CLOSE_WITHIN = 2.0
LARGEST_LOG = 32 * 1024**2
"""In bytes. A write-ahead log that grew longer, behind a long reader, is truncated afterwards."""
STEP, LONGEST_STEP = 0.0005, 0.008
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA cache_size = -16000",  # KB; a thousand firings do not fit into the usual 2 MB
    f"PRAGMA journal_size_limit = {LARGEST_LOG}",
)
_OF_A_TRIGGER = re.compile(
    r"no such (function: |table: main\.(?!tenure_)|column: (new|old)\.)", re.IGNORECASE
)
_real = SystemClock()  # waiting for a lock takes real time, whatever clock the backend was given


class Transactions(Protocol):
    """Where a store's work is done: on our own connection, or on the user's."""

    async def read(self, work: Work[T]) -> T: ...

    async def write(self, work: Work[T], *, unless: Work[T | None] = ...) -> T: ...


_escaped = methodcaller("decode", "utf-8", "backslashreplace")
"""Reads any text, valid UTF-8 or not, but takes twice as long."""


class _Wait:
    """What the caller of a call and the thread that executes it tell each other."""

    def __init__(self) -> None:
        self.given_up = False
        """The caller no longer awaits the result."""
        self.locked = False
        """The thread waits for another connection's lock."""


class Connection:
    """One connection, one thread; `read` and `write` run a function on it."""

    def __init__(
        self,
        path: Path,
        name: str,
        *,
        threads: Threads | None = None,
        factory: type[sqlite3.Connection] = sqlite3.Connection,
    ) -> None:
        self._path = path
        self._threads = threads or Threads(name)
        self._factory = factory
        self._connection: sqlite3.Connection | None = None
        self.waits = False
        """Does the present call wait for another connection's lock?"""
        self._opened_by = os.getpid()
        self._in_call = threading.Lock()
        forks.watch(self)
        self.statements = 0
        """How many transactions and reads were asked for: tests measure the cost of idling."""
        self.writes = 0
        """How many transactions were begun."""
        self.busy = 0
        """How many calls are under way."""

    async def open(self, *, create: bool = True) -> None:
        """Connect, unless connected. Without `create` no file is created, and a database that is
        not Tenure's keeps its journal mode."""
        await self._threads.call(self._guard, lambda: self._open(create))

    async def close(self) -> None:
        try:
            with suppress(TimeoutError):  # a call that hangs must not keep the process from ending
                async with asyncio.timeout(CLOSE_WITHIN):
                    await self._threads.call(self._close)
        finally:
            self._threads.close()

    async def read(self, work: Work[T]) -> T:
        """Run `work` without a transaction of its own. Repeated if the database was busy."""
        return await self._call(self._read, work)

    async def write(self, work: Work[T], *, unless: Work[T | None] = lambda _: None) -> T:
        """Run `work` in one write transaction: all of it lands, or nothing.

        `unless` reads first, without a transaction. If it returns something, that is the answer,
        and the call does not queue for the write lock.
        """
        check_not_beside(self._path)
        return await self._call(lambda work, wait: self._look_and_write(work, unless, wait), work)

    def write_blocking(self, work: Work[T], *, unless: Work[T | None] = lambda _: None) -> T:
        """The same on the calling thread, which it blocks; saves two thread switches."""
        check_not_beside(self._path)
        self.statements += 1
        return self._guard(lambda: self._look_and_write(work, unless, _Wait()))

    def read_blocking(self, work: Work[T]) -> T:
        self.statements += 1
        return self._guard(lambda: self._read(work, _Wait()))

    def _look_and_write(self, work: Work[T], unless: Work[T | None], wait: _Wait) -> T:
        seen = self._read(unless, wait)
        return self._write(work, wait) if seen is None else seen

    def hold_still(self, patience: float) -> bool:
        return self._in_call.acquire(timeout=patience)

    def go_on(self) -> None:
        self._in_call.release()

    def close_inherited(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def is_inherited(self, path: Path) -> bool:
        inherited = self._connection is not None and self._opened_by != os.getpid()
        return inherited and self._path == path

    async def _call(self, function: Callable[[Work[T], _Wait], T], work: Work[T]) -> T:
        wait = _Wait()
        _ = self._sqlite  # raises if closed: no thread would take the call
        self.statements += 1
        self.busy += 1
        try:
            return await self._threads.call(self._guard, lambda: function(work, wait))
        except asyncio.CancelledError:
            wait.given_up = True
            # The reason, for the caller's timeout error. The lock may hold up the call before ours.
            if wait.locked or self.waits:
                raise asyncio.CancelledError(_locked(self._path)) from None
            raise
        finally:
            self.busy -= 1

    def _open(self, create: bool) -> None:
        if self._connection is not None:
            return
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise ConfigError(
                f"SQLite {sqlite3.sqlite_version} is too old; Tenure needs 3.33 or newer. Use a"
                " newer Python build or another database."
            )
        if not forks.may_open(self._path):
            raise StoreError(
                f"{self._path} was open in the process that this one was forked from, and Python"
                " did not see the fork: SQLite would work without its locks here. Open it after"
                " the fork (uWSGI: lazy-apps = true), or start a new process. Nothing was changed."
            )
        with self._in_call:
            self._opened_by = os.getpid()
            self._connection = sqlite3.connect(
                f"{self._path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}",
                uri=True,
                timeout=0,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=256,
                factory=self._factory,
            )
            self._connection.row_factory = sqlite3.Row
        for pragma in _PRAGMAS if create else _PRAGMAS[1:]:
            self._patiently(lambda pragma=pragma: self._sqlite.execute(pragma), _Wait())  # type: ignore[misc]

    def _close(self) -> None:
        with self._in_call:
            self.close_inherited()

    @property
    def _sqlite(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreError(f"{self._path} is not open")
        return self._connection

    def _read(self, work: Work[T], wait: _Wait) -> T:
        return self._patiently(lambda: work(self._sqlite), wait)

    def _write(self, work: Work[T], wait: _Wait) -> T:
        def transaction() -> T:
            self._sqlite.execute("BEGIN IMMEDIATE")
            self.writes += 1
            try:
                result = work(self._sqlite)
                self._sqlite.execute("COMMIT")
            except BaseException:
                if self._sqlite.in_transaction:
                    self._sqlite.execute("ROLLBACK")
                raise
            return result

        return self._patiently(transaction, wait)

    def _patiently(self, attempt: Callable[[], T], wait: _Wait) -> T:
        """Repeat while another connection holds the lock."""
        try:
            return self._repeat(attempt, wait)
        finally:
            self.waits = False

    def _repeat(self, attempt: Callable[[], T], wait: _Wait) -> T:
        until, step = _real.monotonic() + BUSY_AFTER, STEP
        while True:
            if wait.given_up:
                raise StoreUnavailable("given up while waiting for the database")
            try:
                with self._in_call:
                    return attempt()
            except sqlite3.OperationalError as error:
                code = getattr(error, "sqlite_errorcode", None)
                if code is None and self._sqlite.text_factory is str:
                    # Python's error, not SQLite's: the database has text that is not UTF-8.
                    self._sqlite.text_factory = _escaped
                    continue
                if code is None or code & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                if _real.monotonic() > until:
                    raise
            wait.locked = self.waits = True
            _real.block(step)
            step = min(step * 1.5, LONGEST_STEP)

    def _guard(self, function: Callable[[], T]) -> T:
        try:
            return function()
        except sqlite3.Error as error:
            translate(error, self._path)


def command(path: Path, word: str) -> str:
    """The command line of `tenure`, on this file."""
    return Address(of_sqlite(path)).command(word)


def translate(error: sqlite3.Error, path: Path) -> NoReturn:
    """Raise the driver's error as one of ours, with what to do about it."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_BUSY:
        raise StoreUnavailable(_locked(path)) from error
    if code == sqlite3.SQLITE_FULL:
        raise StoreUnavailable(
            f"the disk of {path} is full. Nothing was changed; free some space: Tenure tries again."
        ) from error
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        raise StoreUnavailable(
            f"{path} cannot be written: {error}. Make the file, its -wal and -shm and their folder"
            " writable for this user, or mount the volume read-write. Nothing was changed."
        ) from error
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        raise StoreError(
            f"{path} is not a SQLite database, or is damaged: {error}. Check the URL; a damaged"
            " file must be restored from a backup."
        ) from error
    if code == sqlite3.SQLITE_CANTOPEN:
        raise StoreUnavailable(
            f"{path} cannot be opened: {error}. Check that its folder exists and is writable for"
            " this user."
        ) from error
    if code == sqlite3.SQLITE_ERROR and _OF_A_TRIGGER.match(str(error)):
        raise StoreError(f"{path}: {error}. A trigger of yours needs it, it seems.") from error
    if code == sqlite3.SQLITE_ERROR and "no such" in str(error):
        raise SchemaMismatch(
            f"{path} lacks something that this version needs ({error}). Run"
            f" `{command(path, 'migrate')}`."
        ) from error
    if code == sqlite3.SQLITE_IOERR:
        raise StoreUnavailable(
            f"reading or writing {path} failed: {error}. Check the disk and its file system (dmesg"
            " says more); Tenure tries again."
        ) from error
    if isinstance(error, TenureError):
        raise error
    raise StoreError(f"{path}: {error}") from error


def _locked(path: Path) -> str:
    return (
        f"{path} is locked by another writer for too long. `{command(path, 'doctor')}`"
        " names the process; continue or kill it if it is stopped (frozen)."
    )
