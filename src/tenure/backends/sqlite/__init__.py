"""The SQLite backend: one file, shared by any number of processes on one machine.

It has two connections: leases have their own, so that a heartbeat never waits behind a long firing
in this process. A third one copies the write-ahead log (checkpoints.py). lockfile.py describes the
lock file beside the database.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path

from tenure.backends.address import Address
from tenure.backends.base import CopyMark, Joined
from tenure.backends.shared import copy_marks
from tenure.backends.shared.single_use import Once
from tenure.backends.sqlite import migrate as migrations
from tenure.backends.sqlite.after_commit import Afterwards
from tenure.backends.sqlite.audit import SQLiteAudit
from tenure.backends.sqlite.backup import back_up
from tenure.backends.sqlite.checkpoints import Checkpoints
from tenure.backends.sqlite.connection import Connection
from tenure.backends.sqlite.copying import SQLiteCopySide
from tenure.backends.sqlite.diagnose import diagnose
from tenure.backends.sqlite.editions import SQLiteEditions
from tenure.backends.sqlite.events import SQLiteEvents
from tenure.backends.sqlite.leases import SQLiteLeases
from tenure.backends.sqlite.lending import SQLiteLender
from tenure.backends.sqlite.locks import sharedlocks
from tenure.backends.sqlite.locks.lockfile import LockFile, lock_file_of
from tenure.backends.sqlite.machine import THIS_MACHINE, Machine
from tenure.backends.sqlite.office import SQLiteOffice
from tenure.backends.sqlite.overview import SQLiteOverview
from tenure.backends.sqlite.relays import SQLiteRelays
from tenure.backends.sqlite.rights import find_obstacle, role_script
from tenure.backends.sqlite.runs import SQLiteRuns
from tenure.backends.sqlite.schedules import SQLiteSchedules
from tenure.backends.sqlite.summaries import SQLiteSummaries
from tenure.backends.sqlite.user_transaction import UserTransaction
from tenure.backends.sqlite.wakeups import SQLiteWakeups
from tenure.backends.urls import of_sqlite
from tenure.errors import ConfigError, SchemaMismatch, StoreUnavailable
from tenure.model import Finding, Pending, Result, RoleScript
from tenure.process.clock import Clock, SystemClock

TURN = 60.0
"""So many seconds a consumer waits for those who write before it."""


class SQLiteBackend:
    """Everything in one SQLite file."""

    leases: SQLiteLeases
    office: SQLiteOffice
    schedules: SQLiteSchedules
    editions: SQLiteEditions
    runs: SQLiteRuns
    events: SQLiteEvents
    relays: SQLiteRelays
    audit: SQLiteAudit
    summaries: SQLiteSummaries
    overview: SQLiteOverview
    wakeups: SQLiteWakeups

    def __init__(
        self,
        path: str | Path,
        *,
        namespace: str = "default",
        clock: Clock | None = None,
        machine: Machine = THIS_MACHINE,
    ) -> None:
        self.path = Path(path).absolute()
        self._namespace = namespace
        self._once = Once()
        self._clock = clock or SystemClock()
        self._machine = machine
        self._for_leases = machine.connection(self.path, "tenure-leases")
        self._for_the_rest = machine.connection(self.path, "tenure-store")
        self._checkpoints = Checkpoints(
            machine.connection(self.path, "tenure-checkpoints"),
            (self._for_leases, self._for_the_rest),
            self._clock,
        )
        self._lock_file: LockFile | None = None
        self._shared_locks: sharedlocks.SharedLocks | None = None

    @property
    def location(self) -> str:
        return of_sqlite(self.path)

    async def now(self) -> datetime:
        return self._clock.now()

    async def namespaces(self) -> list[str]:
        return await self.schedules.namespaces()

    @property
    def queries(self) -> int:
        """How many transactions and reads this backend has asked SQLite for."""
        return self._for_leases.statements + self._for_the_rest.statements

    async def open(self, *, migrate: bool = True) -> None:
        self._once.begin(self.location)
        try:
            self._check_path(migrate)
        except PermissionError as error:
            raise StoreUnavailable(
                f"{self.path} cannot be reached: this user may not look into one of the folders"
                " on the way. Give it the permission, or correct the URL."
            ) from error
        try:
            await self._for_the_rest.open(create=migrate)
            await self._migrate(migrate)
            await self._for_leases.open()
            self._shared_locks = self._machine.shared_locks(self.path)
            self._lock_file = await self._open_lock_file()
            self.wakeups = self._machine.wakeups(self._lock_file, self._clock)
            shared = (self.wakeups, self._namespace, self._clock)
            self.leases = SQLiteLeases(
                self._for_leases, self._lock_file, *shared, boot=self._machine.boot
            )
            await self._checkpoints.open()
        except BaseException:
            await self._close_connections()
            if self._lock_file is not None:
                self._lock_file.close()
                self._lock_file = None
            raise
        self.office = SQLiteOffice(self._for_the_rest, self._namespace)
        self.schedules = SQLiteSchedules(self._for_the_rest, self.office, *shared)
        self.editions = SQLiteEditions(self._for_the_rest, self.office, *shared)
        self.runs = SQLiteRuns(self._for_the_rest, self.office, *shared)
        self.events = SQLiteEvents(self._for_the_rest, self.office, *shared)
        self.relays = SQLiteRelays(self._for_the_rest, self.office, *shared)
        self.audit = SQLiteAudit(self._for_the_rest, self.office, *shared[1:])
        self.summaries = SQLiteSummaries(self._for_the_rest, self.office, *shared[1:])
        self.overview = SQLiteOverview(self._for_the_rest, self._namespace, self._clock)
        self._afterwards = Afterwards(self._for_the_rest, self.wakeups, self._lock_file)

    def role_script(self, prefix: str) -> RoleScript:
        """Without `prefix`: a file system has its own users and groups."""
        return role_script(self.path)

    async def check_rights(self) -> None:
        """Does nothing: `open` has checked what the file system allows."""

    async def identify(self) -> None:
        """Does nothing: a file is identified by its path."""

    def join(self, connection: object) -> Joined:
        transaction = UserTransaction(connection, self.path)
        shared = (self.office, self._afterwards, self._namespace, self._clock)
        runs = SQLiteRuns(transaction, *shared)
        return Joined(
            SQLiteSchedules(transaction, *shared),
            runs,
            self.now,
            runs.confirm,
            SQLiteEvents(transaction, *shared),
        )

    def connect(self) -> sqlite3.Connection:
        # Consumers take turns: one that comes while another is at work waits for its commit.
        return sqlite3.connect(
            f"{self.path.as_uri()}?mode=rw",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=TURN,
        )

    def begin(self, connection: sqlite3.Connection, idle: float) -> None:
        """Takes the write lock. Nobody ends it but the caller: `idle` is for servers."""
        del idle
        connection.execute("BEGIN IMMEDIATE")

    async def connect_async(self) -> sqlite3.Connection:
        return self.connect()

    async def begin_async(self, connection: sqlite3.Connection, idle: float) -> None:
        await asyncio.to_thread(self.begin, connection, idle)  # it may wait for the lock

    def lender(self, most: int, hold: float) -> SQLiteLender:
        del most  # there is one writer
        own = (self._for_leases, self._for_the_rest)
        return SQLiteLender(self.path, own, self._conclude, hold)

    def waits_to_write(self) -> bool:
        """Does one of its connections wait for another writer?"""
        return self._for_leases.waits or self._for_the_rest.waits

    def _conclude(self, cursor: sqlite3.Cursor, result: Result) -> bool:
        shared = (self.office, self._afterwards, self._namespace, self._clock)
        return SQLiteRuns(self._for_the_rest, *shared).conclude(cursor, result)

    async def close(self) -> None:
        if self._lock_file is None:
            return
        self._afterwards.close()
        self.wakeups.close()
        await self._checkpoints.close()
        await self._close_connections()
        self.leases.close()
        self._lock_file.close()
        self._lock_file = None

    async def _close_connections(self) -> None:
        if self._shared_locks is not None:
            self._shared_locks.free()
            self._shared_locks = None
        await self._for_leases.close()
        await self._for_the_rest.close()
        sharedlocks.tidy()

    async def pending(self) -> Pending:
        self._check_path(create=True)
        if not self.path.exists():
            return migrations.everything()
        connection = Connection(self.path, "tenure-pending")
        try:
            await connection.open(create=False)
            return await connection.read(migrations.as_sql)
        finally:
            await connection.close()

    async def diagnose(self) -> list[Finding]:
        return await diagnose(self.path)

    def back_up(self, target: Path, *, replace: bool, progress: Callable[[int, int], None]) -> None:
        back_up(self.path, target, replace=replace, progress=progress)

    def copy_side(self) -> SQLiteCopySide:
        return SQLiteCopySide(self.path)

    def check_target(self) -> None:
        if self.path.exists():
            with closing(self.copy_side()) as side:
                side.check_rights()

    async def copy_mark(self) -> CopyMark | None:
        return copy_marks.told(await self._for_the_rest.read(migrations.meta))

    async def _migrate(self, wanted: bool) -> None:
        def look(c: sqlite3.Connection) -> bool:
            migrations.check(c)
            return bool(migrations.pending(c))

        if not await self._for_the_rest.read(look):
            return
        if not wanted:
            raise SchemaMismatch(
                f"{self.path} has no Tenure tables, or older ones than this version needs. Run"
                f" `{Address(self.location).command('migrate')}`, or start a scheduler"
                " without migrate=False."
            )
        await self._for_the_rest.write(lambda c: migrations.apply(c, self._clock))

    def _check_path(self, create: bool) -> None:
        """Say what is wrong before SQLite creates anything.

        Never by opening the file: closing it again would drop the POSIX locks of every SQLite
        connection that this process has to it.
        """
        folder = self.path.parent
        if self.path.is_dir():
            raise ConfigError(f"{self.path} is a folder; the URL must name a file in it.")
        if not folder.is_dir():
            raise ConfigError(
                f"the folder {folder} does not exist. Create it, or correct the URL"
                f" (sqlite:///relative/path.db, sqlite:////absolute/path.db)."
            )
        if not self.path.exists() and not create:
            raise SchemaMismatch(
                f"there is no database {self.path}. Check the URL;"
                f" `{Address(self.location).command('migrate')}` creates it, and so does a"
                " scheduler that starts without migrate=False."
            )
        obstacle = find_obstacle(self.path)
        if obstacle is not None:
            raise StoreUnavailable(
                f"{self.path} cannot be written: {obstacle.text}. {obstacle.remedy} Nothing was"
                " changed."
            )

    async def _open_lock_file(self) -> LockFile:
        # On a thread: it may block for a moment, and longer if the disk is slow.
        threads = self._machine.threads("tenure-lock-file")
        opening = threads.begin(self._machine.lock_file, self.path)
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(_close_unwanted)
            raise
        except OSError as error:
            raise StoreUnavailable(
                f"the lock file {lock_file_of(self.path)} cannot be used: {error.strerror}. It"
                " needs a few kilobytes, on a file system with POSIX locks."
            ) from error
        finally:
            threads.close()


def _close_unwanted(opening: asyncio.Future[LockFile]) -> None:
    """The caller was cancelled while the thread opened the file."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
