"""The store's work on the user's connection, inside the user's transaction.

Nothing is committed or set there. Each call first takes the write lock, with the timeout of the
user's connection: in SQLite a transaction that reads first and writes later may find that it can no
longer write. Each call has a savepoint, so that a refused call leaves the user's transaction as it
was. The driver's errors reach the user unchanged.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

from tenure.backends.shared import user_connections
from tenure.backends.sqlite.connection import T, Work
from tenure.errors import ConfigError

LOCK = "UPDATE tenure_fence SET term = term WHERE 0"
_IN_NONE = (
    "this connection is in autocommit mode and in no transaction, so there is nothing that the"
    " change could be a part of. Execute BEGIN IMMEDIATE first, or leave connection= out."
)


class Executes(Protocol):
    """As much of a connection as the store's work needs."""

    @property
    def in_transaction(self) -> bool: ...

    def execute(self, text: str, values: Mapping[str, object] = ..., /) -> Any: ...

    def executemany(self, text: str, values: Sequence[Mapping[str, object]], /) -> Any: ...


class UserTransaction:
    """Replaces a `Connection`; its methods await nothing."""

    def __init__(self, connection: object, path: Path) -> None:
        self._path = path
        self._connection: Any = executes(connection)
        try:
            self._check_file()
        except sqlite3.ProgrammingError as error:
            if "closed" not in str(error):
                raise
            raise ConfigError(
                "this connection has been closed. Give one that is in a transaction."
            ) from error

    async def read(self, work: Work[T]) -> T:
        return work(self._connection)

    async def write(self, work: Work[T], *, unless: Work[T | None] = lambda _: None) -> T:
        del unless  # it avoids the write lock, which is needed here in any case
        connection = self._connection
        connection.execute(LOCK)
        if not connection.in_transaction:
            raise ConfigError(_IN_NONE)
        connection.execute("SAVEPOINT tenure")
        try:
            result = work(connection)
        except BaseException:
            if connection.in_transaction:  # some errors end it
                connection.execute("ROLLBACK TO tenure")
                connection.execute("RELEASE tenure")
            raise
        connection.execute("RELEASE tenure")
        return result

    def _check_file(self) -> None:
        (file,) = [
            row["file"]
            for row in self._connection.execute("PRAGMA database_list")
            if row["name"] == "main"
        ]
        if not (file and Path(file).exists() and self._path.samefile(file)):
            raise ConfigError(
                f"this connection is to {file or 'a database in memory'}, and the scheduler's store"
                f" is {self._path}. A transaction spans one database: open the connection to that"
                " file, or leave connection= out."
            )


def executes(connection: object) -> Executes:
    if user_connections.by_sqlalchemy(connection):
        return _SQLAlchemy(user_connections.connection_of(connection))
    if not isinstance(connection, sqlite3.Connection):
        raise ConfigError(
            "the scheduler's store is SQLite: connection= takes a sqlite3.Connection, or an"
            " SQLAlchemy Connection or Session, not"
            f" {type(connection).__module__}.{type(connection).__qualname__}."
        )
    if connection.text_factory is not str:
        raise ConfigError("this connection has its own text_factory; Tenure needs str.")
    return Plain(connection)


class Plain:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def execute(self, text: str, values: Mapping[str, object] = {}, /) -> sqlite3.Cursor:
        return self._cursor().execute(text, values)

    def executemany(self, text: str, values: Sequence[Mapping[str, object]], /) -> sqlite3.Cursor:
        return self._cursor().executemany(text, values)

    def _cursor(self) -> sqlite3.Cursor:
        _ = self._connection.in_transaction  # one that is lent to a task begins its transaction
        # A plain cursor, whatever factories the user's connection has.
        cursor = sqlite3.Cursor(self._connection)
        cursor.row_factory = sqlite3.Row
        return cursor


class _SQLAlchemy:
    def __init__(self, connection: Any) -> None:
        if connection.dialect.name != "sqlite":
            raise ConfigError(
                f"the scheduler's store is SQLite, and this connection is for"
                f" {connection.dialect.name}. Give one to the scheduler's own database."
            )
        self._connection = connection

    @property
    def in_transaction(self) -> bool:
        return bool(self._connection.connection.driver_connection.in_transaction)

    def execute(self, text: str, values: Mapping[str, object] = {}, /) -> _Answer:
        return _Answer(self._connection.exec_driver_sql(text, dict(values)))

    def executemany(self, text: str, values: Sequence[Mapping[str, object]], /) -> _Answer:
        return _Answer(self._connection.exec_driver_sql(text, list(values)))


class _Answer:
    """SQLAlchemy's result, in the form of sqlite3's."""

    def __init__(self, result: Any) -> None:
        self.rowcount: int = result.rowcount
        self._rows: list[_Row] = []
        self.lastrowid: int | None = None
        if result.returns_rows:
            names = list(result.keys())
            self._rows = [_Row(names, row) for row in result]
        else:
            self.lastrowid = result.lastrowid

    def __iter__(self) -> Iterator[_Row]:
        return iter(self._rows)

    def fetchone(self) -> _Row | None:
        return self._rows[0] if self._rows else None

    def fetchall(self) -> list[_Row]:
        return self._rows


class _Row(tuple[Any, ...]):  # noqa: SLOT001 - tuples have no room for slots
    """A row whose columns are found by place and by name."""

    _names: list[str]

    def __new__(cls, names: list[str], values: Sequence[Any]) -> Self:
        row = super().__new__(cls, values)
        row._names = names
        return row

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(self._names.index(key) if isinstance(key, str) else key)
