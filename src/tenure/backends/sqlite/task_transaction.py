"""The transaction that a transactional task has on SQLite, and the connection that it gets.

It begins when the task first uses its connection: before that, all others can write.

The next task has the same connection only if nobody can tell: the task has set nothing that lasts,
nobody refers to it any more, and all was committed. Otherwise it is closed: to open another takes
longer than all else that Tenure does for a task.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tenure.backends.shared.lending import too_late
from tenure.backends.sqlite.checkpoints import LAST_RESORT
from tenure.backends.sqlite.connection import LONGEST_STEP, STEP, Connection, translate
from tenure.backends.sqlite.lent_connection import LentConnection, execute, in_transaction
from tenure.errors import TransactionLost
from tenure.model import Result
from tenure.process.clock import SystemClock

STEPS = 20_000
"""After how many of SQLite's steps a statement looks whether its time is up: a millisecond."""
ENDED = (
    "the task ended the transaction that it was lent, or tried to: by COMMIT or ROLLBACK, or by a"
    " conflict that rolls back (OR ROLLBACK, ON CONFLICT ROLLBACK). Nothing of it was kept. Leave"
    " the end to Tenure; to undo a part, use a savepoint."
)
UNSEEN = (
    "the task used its connection past its methods, before its transaction had begun: make cursors"
    " with connection.cursor(), not with sqlite3.Cursor(connection). Nothing of it was kept."
)
Conclude = Callable[[Any, Result], bool]
"""Records a success, if its claim is still the present one. Takes a cursor."""
_LASTING = {
    *(sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH, sqlite3.SQLITE_PRAGMA),
    *(sqlite3.SQLITE_CREATE_TEMP_INDEX, sqlite3.SQLITE_CREATE_TEMP_TABLE),
    *(sqlite3.SQLITE_CREATE_TEMP_TRIGGER, sqlite3.SQLITE_CREATE_TEMP_VIEW),
}
"""Statements that leave something behind."""
_LOOKS = {"database_list", "table_info", "table_xinfo", "foreign_key_list", "index_list"}
"""Pragmas that do not."""
_real = SystemClock()


class LentFile(Connection):
    """A connection for one task at a time, and its transaction."""

    def __init__(self, path: Path, conclude: Conclude) -> None:
        super().__init__(path, "tenure-lent", factory=LentConnection)
        self._conclude = conclude
        self._within = self._hold = 0.0
        self._give_way: Callable[[], None] = lambda: None
        self._tell_over: Callable[[float], None] = lambda _: None
        self._begun = 0.0
        self.used = False
        self._beginning = threading.Lock()
        self._turn = threading.Lock()
        """Of the caller that ends the transaction."""
        self._ending = True
        self.late = False
        """Was it ended because its time was up?"""
        self._stops = False
        """Are statements of the task that run to end?"""
        self._ender: int | None = None
        """The thread that may begin and end the transaction."""
        self._refused = False
        self._committed = False
        self._references = 0
        """How many there are to the connection while no task has it."""
        self.until = float("inf")

    @property
    def connection(self) -> sqlite3.Connection:
        return self._sqlite

    @property
    def path(self) -> Path:
        return self._path

    @property
    def is_over(self) -> bool:
        return self._ending

    @property
    def is_open(self) -> bool:
        """May another task have it?"""
        return self._connection is not None and not self.late

    def lend(
        self,
        within: float,
        hold: float,
        give_way: Callable[[], None],
        over: Callable[[float], None],
    ) -> None:
        """The task has `hold` seconds until it uses the connection, and then as many for its
        transaction. To begin, it waits `within` so many for other writers, after `give_way`. `over`
        is called once, when all is over, with how long the transaction was open."""
        self._within, self._hold, self._give_way, self._tell_over = within, hold, give_way, over
        self._committed = self.used = False
        try:
            self._guard(self._open_once)
        except BaseException:
            self.shut()
            raise
        with self._turn:
            self._ender, self._refused, self._ending = None, False, False
            self._stops = False
            self.until = _real.monotonic() + hold
        self._lent.lend(self._begin)

    def _open_once(self) -> None:
        if self._connection is None:
            self._open(create=False)
            self._set_up()

    def _begin(self) -> None:
        """The task uses its connection for the first time."""
        with self._beginning:
            with self._turn:
                if self.used or self._ending:
                    return
                self.until = float("inf")
                self._ender = threading.get_ident()
            begun = False
            try:
                self._give_way()
                self._guard(self._begin_patiently)
                begun = True
            finally:
                with self._turn:
                    if not self.is_over:
                        self._ender = None
                        self._begun = _real.monotonic()
                        self.until = self._begun + self._hold
                        if begun:
                            self.used, self._lent.before_use = True, None
                    elif begun:  # its task ended meanwhile, and has left this thread behind
                        self._in_call.release()

    def _begin_patiently(self) -> None:
        file = self._sqlite
        until, step = _real.monotonic() + self._within, STEP
        while True:
            # Kept while the transaction is open: a child of a fork could not close it then.
            self._in_call.acquire()
            try:
                execute(file, "BEGIN IMMEDIATE")
                execute(file, "SAVEPOINT tenure_lent")
            except BaseException as error:
                self._in_call.release()
                if not _is_busy(error) or _real.monotonic() > until:
                    raise
            else:
                return
            _real.block(step)
            step = min(step * 1.5, LONGEST_STEP)

    def _set_up(self) -> None:
        file = self._sqlite
        file.row_factory = None
        execute(file, f"PRAGMA wal_autocheckpoint = {LAST_RESORT}").fetchone()
        # Not by an interrupt: while a result is half read, that would end our ROLLBACK, too.
        sqlite3.Connection.set_progress_handler(file, lambda: self._stops, STEPS)
        sqlite3.Connection.set_authorizer(file, self._allow)
        del file
        self._references = self._count()

    def _count(self) -> int:
        """The references to the connection; -1 if this Python does not count them."""
        count = getattr(sys, "getrefcount", None)
        return -1 if count is None else count(self._connection)

    def _allow(self, action: int, first: str | None, *_: object) -> int:
        """SQLite asks before each statement of the task. A conflict or a trigger may have ended
        the transaction by itself: each statement after it would be committed at once."""
        if threading.get_ident() == self._ender:
            return sqlite3.SQLITE_OK
        ends = action == sqlite3.SQLITE_TRANSACTION
        pragma = (first or "").lower() if action == sqlite3.SQLITE_PRAGMA else ""
        if ends or pragma == "query_only" or not (self.late or in_transaction(self._sqlite)):
            self._refused = True
            return sqlite3.SQLITE_DENY
        if action in _LASTING and pragma not in _LOOKS:
            self._lent.changed = True
        return sqlite3.SQLITE_OK

    @property
    def _lent(self) -> LentConnection:
        assert isinstance(self._connection, LentConnection)
        return self._connection

    def commit(self, result: Result) -> bool:
        self._begin()
        with self._turn:
            if self.late:
                raise too_late(self._hold)
            self._ending = True
            self._ender = threading.get_ident()
        if self._refused:
            raise TransactionLost(ENDED)
        self._lent.close_cursors()
        file = self._sqlite
        cursor = sqlite3.Cursor(file)  # a plain one, whatever factories the task has set
        cursor.row_factory = None
        self._stops = True  # what another thread still executes
        try:
            cursor.execute("RELEASE tenure_lent")
        except sqlite3.OperationalError as error:
            raise TransactionLost(ENDED) from error
        self._stops = False
        if not self._conclude(cursor, result):
            return False
        try:
            cursor.execute("COMMIT")
        except sqlite3.Error as error:
            translate(error, self._path)
        self._committed = True
        return True

    @contextmanager
    def ended(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if self.late:
                raise too_late(self._hold) from error
            if self._refused:
                raise TransactionLost(ENDED if self.used else UNSEEN) from error
            raise
        finally:
            with self._turn:
                self._ending = True
                self._ender = threading.get_ident()
            if self._connection is not None:
                self._lent.before_use = None
                self._lent.close_cursors()
            if not self._is_as_new():
                self.shut()
            if not self.late:
                self._is_over()

    def _is_as_new(self) -> bool:
        """Can nobody tell that a task has had it?"""
        if self._connection is None or self.late or (self.used and not self._committed):
            return False
        if vars(self._connection):  # `changed`, or what else the task has put there
            return False
        factories = self._lent.row_factory, self._lent.text_factory
        unknown = self._count() != self._references or weakref.getweakrefcount(self._connection)
        return not unknown and factories == (None, str)

    def shut(self) -> None:
        """Closing alone would not roll back while somebody has a cursor."""
        file, self._connection = self._connection, None
        if file is not None:
            self._stops = True
            with suppress(sqlite3.Error):  # there may be nothing to roll back
                execute(file, "ROLLBACK")
            sqlite3.Connection.close(file)
        self._threads.close()

    def end_in_time(self) -> None:
        """On the watching thread, while the task may be anywhere."""
        with self._turn:
            if self._ending or _real.monotonic() < self.until:
                return
            self._ending = self.late = self._stops = True
            self._ender = threading.get_ident()
            file = self._sqlite
            # First: what the task does next must not be written outside of its transaction.
            with suppress(sqlite3.Error):
                execute(file, "PRAGMA query_only = ON")
            with suppress(sqlite3.Error):  # it may have ended it itself
                execute(file, "ROLLBACK")
            self._is_over()

    def _is_over(self) -> None:
        if not self.used:
            self._tell_over(0.0)
            return
        self._in_call.release()
        self._tell_over(_real.monotonic() - self._begun)

    def close_inherited(self) -> None:
        if self._connection is not None:
            sqlite3.Connection.close(self._connection)
            self._connection = None


def _is_busy(error: BaseException) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF == sqlite3.SQLITE_BUSY
