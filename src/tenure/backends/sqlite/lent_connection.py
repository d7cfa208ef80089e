"""The connection that a transactional task gets on SQLite.

Its methods cannot end the transaction. They begin it when the task first uses the connection, and
note what the next task would find in it.
"""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, NoReturn, Self

from tenure.backends.shared.lending import not_yours

_USES = "iterdump", "serialize"
"""Methods that use the connection. They leave nothing behind in it."""
_HARMLESS = {
    *(*_USES, "in_transaction", "total_changes", "interrupt", "getlimit", "getconfig", "backup"),
    *("row_factory", "text_factory", "isolation_level", "autocommit"),
}
"""What leaves nothing behind, either. The factories are compared in the end."""


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
    __slots__ = ("__dict__", "__weakref__", "_changes", "_cursors", "before_use")
    changed = False
    """Has it something that the next task would find?"""

    def __init__(self, *args: Any, **more: Any) -> None:
        self.before_use: Callable[[], None] | None = None
        """Begins the transaction."""
        self._changes = 0
        """How many others have made before."""
        self._cursors: set[weakref.ref[sqlite3.Cursor]] = set()
        # Each statement is prepared when it is executed: then SQLite asks whether it is allowed.
        super().__init__(*args, **{**more, "cached_statements": 0})

    def __setattr__(self, name: str, value: object) -> None:
        if name in ("isolation_level", "autocommit"):
            raise not_yours(f"setting {name}")
        super().__setattr__(name, value)

    def begin_if_not_begun(self) -> None:
        if self.before_use is not None:
            self.before_use()

    def lend(self, begin: Callable[[], None]) -> None:
        self.before_use = begin
        self._changes = _known(self, "total_changes")

    def close_cursors(self) -> None:
        """A result that is half read keeps a transaction open, even if the connection is closed.
        One that another thread waits for is not closed."""
        while self._cursors:
            cursor = self._cursors.pop()()
            if cursor is not None:
                with suppress(sqlite3.ProgrammingError):
                    sqlite3.Cursor.close(cursor)

    def cursor(self, factory: Any = None) -> Any:
        if factory is not None:
            self.begin_if_not_begun()
        made = super().cursor(factory or LentCursor)
        self._cursors.add(weakref.ref(made, self._cursors.discard))
        return made

    def execute(self, *args: Any) -> sqlite3.Cursor:
        cursor: sqlite3.Cursor = self.cursor().execute(*args)
        return cursor

    def executemany(self, *args: Any) -> sqlite3.Cursor:
        cursor: sqlite3.Cursor = self.cursor().executemany(*args)
        return cursor

    def blobopen(self, *args: Any, **more: Any) -> sqlite3.Blob:
        # Of this SQLite does not ask whether it is allowed, as it does of statements.
        self.execute("SELECT 1")
        return super().blobopen(*args, **more)

    @property
    def total_changes(self) -> int:
        made: int = _known(self, "total_changes")
        return made - self._changes

    @property
    def in_transaction(self) -> bool:
        self.begin_if_not_begun()
        return in_transaction(self)

    def set_authorizer(self, authorizer_callback: object) -> NoReturn:
        del authorizer_callback
        raise not_yours("set_authorizer()")

    def set_progress_handler(self, *_: object, **__: object) -> NoReturn:
        raise not_yours("set_progress_handler()")  # ours ends statements that take too long

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


def execute(file: sqlite3.Connection, text: str) -> sqlite3.Cursor:
    """Past the methods that a task has."""
    return sqlite3.Connection.execute(file, text)


def in_transaction(connection: sqlite3.Connection) -> bool:
    """As above."""
    return bool(_known(connection, "in_transaction"))


def _known(connection: sqlite3.Connection, name: str) -> Any:
    return vars(sqlite3.Connection)[name].__get__(connection)


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
