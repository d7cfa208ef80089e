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
from types import TracebackType
from typing import Any, Literal, NoReturn, Self

from tenure.backends.shared.lending import not_yours, too_late
from tenure.backends.sqlite.checkpoints import LAST_RESORT
from tenure.backends.sqlite.connection import LONGEST_STEP, STEP, Connection, translate
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
_USES = "execute", "executemany", "iterdump", "serialize", "blobopen"
"""Methods that use the connection. They leave nothing behind in it."""
_HARMLESS = {
    *(*_USES, "cursor", "in_transaction", "total_changes", "interrupt", "getlimit", "getconfig"),
    *("backup", "row_factory", "text_factory", "isolation_level", "autocommit"),
}
"""What leaves nothing behind, either. The factories are compared in the end."""
_LASTING = {
    *(sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH, sqlite3.SQLITE_PRAGMA),
    *(sqlite3.SQLITE_CREATE_TEMP_INDEX, sqlite3.SQLITE_CREATE_TEMP_TABLE),
    *(sqlite3.SQLITE_CREATE_TEMP_TRIGGER, sqlite3.SQLITE_CREATE_TEMP_VIEW),
}
"""Statements that leave something behind."""
_LOOKS = {"database_list", "table_info", "table_xinfo", "foreign_key_list", "index_list"}
"""Pragmas that do not."""
_real = SystemClock()


class LentCursor(sqlite3.Cursor):
    def execute(self, *args: Any) -> Self:
        self.connection.begin_if_not_begun()  # type: ignore[attr-defined]
        return super().execute(*args)

    def executemany(self, *args: Any) -> Self:
        self.connection.begin_if_not_begun()  # type: ignore[attr-defined]
        return super().executemany(*args)

    def executescript(self, sql_script: str, /) -> NoReturn:
        del sql_script
        raise not_yours("executescript(), which commits first,")


class LentConnection(sqlite3.Connection):
    """What the task gets: it cannot end its transaction by a method."""

    # Not in the dict, which has what tasks put there.
    __slots__ = ("__dict__", "__weakref__", "before_use")
    changed = False
    """Has it something that the next task would find?"""

    def __init__(self, *args: Any, **more: Any) -> None:
        self.before_use: Callable[[], None] | None = None
        """Begins the transaction."""
        # Each statement is prepared when it is executed: then SQLite asks whether it is allowed.
        super().__init__(*args, **{**more, "cached_statements": 0})

    def __setattr__(self, name: str, value: object) -> None:
        if name in ("isolation_level", "autocommit"):
            raise not_yours(f"setting {name}")
        super().__setattr__(name, value)

    def begin_if_not_begun(self) -> None:
        if self.before_use is not None:
            self.before_use()

    def cursor(self, factory: Any = None) -> Any:
        if factory is None:
            return super().cursor(LentCursor)
        self.begin_if_not_begun()
        return super().cursor(factory)

    @property
    def in_transaction(self) -> bool:
        self.begin_if_not_begun()
        return _in_transaction(self)

    def set_authorizer(self, authorizer_callback: object) -> NoReturn:
        del authorizer_callback
        raise not_yours("set_authorizer()")

    def commit(self) -> NoReturn:
        raise not_yours("commit()")

    def rollback(self) -> NoReturn:
        raise not_yours("rollback()")

    def close(self) -> NoReturn:
        raise not_yours("close()")

    def executescript(self, sql_script: str, /) -> NoReturn:
        del sql_script
        raise not_yours("executescript(), which commits first,")

    def __enter__(self) -> Self:
        raise not_yours("`with connection:`, which commits at its end,")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> Literal[False]:
        return False


def _in_transaction(connection: sqlite3.Connection) -> bool:
    known: bool = vars(sqlite3.Connection)["in_transaction"].__get__(connection)
    return known


def _using(name: str) -> Callable[..., Any]:
    def call(connection: LentConnection, *args: Any, **more: Any) -> Any:
        connection.begin_if_not_begun()
        return getattr(sqlite3.Connection, name)(connection, *args, **more)

    return call


def _lasting(name: str) -> Callable[..., Any]:
    def call(connection: LentConnection, *args: Any, **more: Any) -> Any:
        connection.changed = True
        return getattr(sqlite3.Connection, name)(connection, *args, **more)

    return call


for _name in _USES:
    if hasattr(sqlite3.Connection, _name):
        setattr(LentConnection, _name, _using(_name))
for _name in set(vars(sqlite3.Connection)) - vars(LentConnection).keys() - _HARMLESS:
    if (
        callable(getattr(sqlite3.Connection, _name))
        and not _name.startswith("_")
        and _name.islower()
    ):
        setattr(LentConnection, _name, _lasting(_name))


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
            self.until = _real.monotonic() + hold
        self._lent.before_use = self._begin

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
            try:
                self._give_way()
                self._guard(self._begin_patiently)
                self.used = True
                self._lent.before_use = None
            finally:
                with self._turn:
                    self._ender = None
                    self._begun = _real.monotonic()
                    self.until = self._begun + self._hold

    def _begin_patiently(self) -> None:
        file = self._sqlite
        until, step = _real.monotonic() + self._within, STEP
        while True:
            # Kept while the transaction is open: a child of a fork could not close it then.
            self._in_call.acquire()
            try:
                _execute(file, "BEGIN IMMEDIATE")
                _execute(file, "SAVEPOINT tenure_lent")
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
        _execute(file, f"PRAGMA wal_autocheckpoint = {LAST_RESORT}").fetchone()
        # An interrupt ends only what runs at that moment; this ends what begins right after it.
        sqlite3.Connection.set_progress_handler(file, lambda: self.late, STEPS)
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
        if ends or pragma == "query_only" or not (self.late or _in_transaction(self._sqlite)):
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
        file = self._sqlite
        cursor = sqlite3.Cursor(file)  # a plain one, whatever factories the task has set
        cursor.row_factory = None
        try:
            cursor.execute("RELEASE tenure_lent")
        except sqlite3.OperationalError as error:
            raise TransactionLost(ENDED) from error
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
            if self._connection is not None:
                self._lent.before_use = None
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
        """Closing rolls back what was not committed."""
        file, self._connection = self._connection, None
        if file is not None:
            sqlite3.Connection.close(file)
        self._threads.close()

    def end_in_time(self) -> None:
        """On the watching thread, while the task may be anywhere."""
        with self._turn:
            if self._ending or _real.monotonic() < self.until:
                return
            self._ending = self.late = True
            self._ender = threading.get_ident()
            file = self._sqlite
            file.interrupt()
            # First: what the task does next must not be written outside of its transaction.
            with suppress(sqlite3.Error):
                _execute(file, "PRAGMA query_only = ON")
            with suppress(sqlite3.Error):  # it may have ended it itself
                _execute(file, "ROLLBACK")
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


def _execute(file: sqlite3.Connection, text: str) -> sqlite3.Cursor:
    """Past the methods that a task has."""
    return sqlite3.Connection.execute(file, text)


def _is_busy(error: BaseException) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF == sqlite3.SQLITE_BUSY
