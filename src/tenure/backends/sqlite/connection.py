"""A SQLite connection on a thread of its own.

Writes are one `BEGIN IMMEDIATE` transaction each: either it has the write lock from its first
statement, or it changed nothing. Waiting for the lock is done here, in small steps, rather than in
SQLite's busy handler: its steps of up to 100 ms are too coarse for a scheduler, and a caller who
has given up waiting must be able to call it off, so that nothing lands after its timeout.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn, TypeVar

from tenure.clock import SystemClock
from tenure.errors import ConfigError, SchemaMismatch, StoreError, StoreUnavailable, TenureError
from tenure.threads import Threads

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

OLDEST_SQLITE = (3, 33, 0)
BUSY_AFTER = 5.0
CLOSE_WITHIN = 2.0
_STEP, _LONGEST_STEP = 0.0005, 0.008
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA temp_store = MEMORY",
)
_real = SystemClock()  # waiting for a lock takes real time, whatever clock the backend was given


class _GivenUp:
    """Set when nobody awaits the result any more."""

    def __init__(self) -> None:
        self.value = False


class Connection:
    """One connection, one thread; `read` and `write` run a function on it."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._threads = Threads(name)
        self._connection: sqlite3.Connection | None = None
        self.statements = 0
        """How many transactions and reads were asked for: the cost of idling is measured by it."""

    async def open(self, *, create: bool = True) -> None:
        """Connect. Without `create` no file comes into being, and somebody else's database is
        not turned into one with a write-ahead log."""
        await self._threads.call(self._guard, lambda: self._open(create))

    async def close(self) -> None:
        with suppress(TimeoutError):  # a call that hangs must not keep the process from ending
            async with asyncio.timeout(CLOSE_WITHIN):
                await self._threads.call(self._close)
        self._threads.close()

    async def read(self, work: Work[T]) -> T:
        """Run `work` without a transaction of its own. Repeated if the database was busy."""
        return await self._call(self._read, work)

    async def write(self, work: Work[T]) -> T:
        """Run `work` in one write transaction: all of it lands, or nothing."""
        return await self._call(self._write, work)

    async def _call(self, function: Callable[[Work[T], _GivenUp], T], work: Work[T]) -> T:
        given_up = _GivenUp()
        self.statements += 1
        try:
            return await self._threads.call(self._guard, lambda: function(work, given_up))
        except asyncio.CancelledError:
            given_up.value = True
            raise

    def _open(self, create: bool) -> None:
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise ConfigError(
                f"SQLite {sqlite3.sqlite_version} is too old; Tenure needs 3.33 or newer. Use a"
                " newer Python build or another database."
            )
        self._connection = sqlite3.connect(
            f"{self._path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}",
            uri=True,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        self._connection.row_factory = sqlite3.Row
        for pragma in _PRAGMAS if create else _PRAGMAS[1:]:
            self._patiently(lambda pragma=pragma: self._sqlite.execute(pragma), _GivenUp())  # type: ignore[misc]

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def _sqlite(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreError(f"{self._path} is not open")
        return self._connection

    def _read(self, work: Work[T], given_up: _GivenUp) -> T:
        return self._patiently(lambda: work(self._sqlite), given_up)

    def _write(self, work: Work[T], given_up: _GivenUp) -> T:
        self._patiently(lambda: self._sqlite.execute("BEGIN IMMEDIATE"), given_up)
        try:
            result = work(self._sqlite)
            self._sqlite.execute("COMMIT")
        except BaseException:
            if self._sqlite.in_transaction:
                self._sqlite.execute("ROLLBACK")
            raise
        return result

    def _patiently(self, attempt: Callable[[], T], given_up: _GivenUp) -> T:
        """Try again while another connection is in the way."""
        until, step = _real.monotonic() + BUSY_AFTER, _STEP
        while True:
            if given_up.value:
                raise StoreUnavailable("given up while waiting for the database")
            try:
                return attempt()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                if _real.monotonic() > until:
                    raise
            _real.block(step)
            step = min(step * 1.5, _LONGEST_STEP)

    def _guard(self, function: Callable[[], T]) -> T:
        try:
            return function()
        except sqlite3.Error as error:
            translate(error, self._path)


def translate(error: sqlite3.Error, path: Path) -> NoReturn:
    """The driver's error as one of ours, with what to do about it."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_BUSY:
        raise StoreUnavailable(
            f"{path} has been locked by another writer for more than {BUSY_AFTER:g} s."
            " `tenure doctor` names the process; a stopped (frozen) one must go on or be killed."
        ) from error
    if code == sqlite3.SQLITE_FULL:
        raise StoreUnavailable(
            f"the disk of {path} is full. Nothing was changed; free some space, Tenure tries again."
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
    if code == sqlite3.SQLITE_ERROR and "no such" in str(error):
        raise SchemaMismatch(
            f"{path} lacks something that this version needs ({error}). Run `tenure migrate`."
        ) from error
    if code == sqlite3.SQLITE_IOERR:
        raise StoreUnavailable(f"reading or writing {path} failed: {error}.") from error
    if isinstance(error, TenureError):
        raise error
    raise StoreError(f"{path}: {error}") from error
