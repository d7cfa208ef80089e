"""Connections for transactional tasks from an SQLAlchemy engine that the application handed in.

They are the engine's own: its pool, its driver, its listeners. So its pool decides how many there
are and how long one waits for them, and clears them afterwards. All else is as with the store's own
connections: limits in time, the result as the last statement, and a task that ends the transaction
itself is found out.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from tenure.backends.base import Joins
from tenure.backends.engines import made_by
from tenure.backends.shared.lending import (
    ENDED_BY_TASK,
    LIMIT,
    Pauses,
    Places,
    explained,
    not_yours,
    only_writer,
    record,
    too_late,
)
from tenure.errors import ConfigError, TransactionLost
from tenure.model import Result
from tenure.process.clock import SystemClock

_real = SystemClock()
# With the search path of the user, which could replace even operators.
_BEGIN = (
    "SELECT pg_catalog.set_config('tenure.lent', '1', true),"
    " pg_catalog.set_config('statement_timeout', '{limit}', true),"
    " pg_catalog.set_config('idle_in_transaction_session_timeout', '{limit}', true),"
    " CASE WHEN pg_catalog.current_setting('server_version_num')::pg_catalog.int4"
    " OPERATOR(pg_catalog.>=) 170000"
    " THEN pg_catalog.set_config('transaction_timeout', '{limit}', true) END"
)
_CHECK = (
    "SET CONSTRAINTS ALL IMMEDIATE",
    "SELECT pg_catalog.current_setting('tenure.lent')::pg_catalog.int4",
)
_BEGUN = "SELECT pg_catalog.current_setting('tenure.lent', true)"
_AUTOCOMMIT = (
    "the engine commits each statement at once (isolation_level='AUTOCOMMIT'), so that effects and"
    " run cannot be committed together. Hand in an engine without it."
)
_BEGIN_SQLITE, _MARK_SQLITE = "BEGIN IMMEDIATE", "SAVEPOINT tenure_lent"
_LOCK_SQLITE = "UPDATE tenure_fence SET term = term WHERE 0"
"""If the engine's listeners have begun the transaction already."""
_ONE_THREAD = (
    "the engine's connections are for one thread each (check_same_thread=True), so that nobody"
    " could end a transaction that takes too long. Leave that out of its connect_args."
)
_CHECK_SQLITE = ("RELEASE tenure_lent",)


class EngineLender:
    """`engine` is an Engine or an AsyncEngine to the database of the store."""

    def __init__(self, engine: Any, store: Joins, hold: float) -> None:
        self._engine = engine
        self._store = store
        self._hold = hold
        self._awaits = hasattr(engine, "sync_engine")
        self._on_sqlite = engine.dialect.name == "sqlite"
        self._places = Places(1)  # on SQLite, which has one writer
        self._begun = 0.0
        self._checked = False
        """Is it known that another thread may end its transactions?"""
        self._pauses = Pauses(getattr(store, "waits_to_write", lambda: False))

    def refusal(self, *, coroutine: bool) -> str | None:
        if self._on_sqlite and coroutine:
            return (
                "SQLite blocks: a coroutine would keep all others from writing while it waits for"
                " its loop. Declare it as a plain function (def), and hand in an Engine."
            )
        if coroutine and not self._awaits:
            return (
                "is a coroutine function, and the scheduler was handed an Engine, whose connections"
                " block. Declare it as a plain function (def), or hand in an AsyncEngine."
            )
        if self._awaits and not coroutine:
            return (
                "is a plain function, and the scheduler was handed an AsyncEngine, whose"
                " connections are awaited. Declare it with async def, or hand in an Engine."
            )
        return _AUTOCOMMIT if not self._on_sqlite and _commits_at_once(self._engine) else None

    @contextmanager
    def lend(self, limit: float | None) -> Iterator[EngineTransaction]:
        if self._on_sqlite:
            with self._lend_file(limit) as lent:
                yield lent
            return
        from sqlalchemy.exc import DBAPIError

        limit = LIMIT if limit is None else limit
        with self._engine.connect() as connection:
            lent = EngineTransaction(connection, self._store)
            try:
                lent.begin(limit)
                with explained(limit, DBAPIError):
                    yield lent
            finally:
                lent.end()

    @contextmanager
    def _lend_file(self, limit: float | None) -> Iterator[EngineTransaction]:
        """One at a time. A place is free when its transaction is over: its task may go on."""
        left = self._places.take(limit)
        over = Once(self._take_back)
        try:
            self._pauses.give_way()
            with self._engine.connect() as connection:
                if not self._checked:
                    try:
                        _check_threads(connection.connection.driver_connection)
                    except ConfigError:
                        connection.invalidate()  # closed here, since no other thread can
                        raise
                    self._checked = True
                self._begun = _real.monotonic()
                lent = EngineTransaction(connection, self._store, over)
                try:
                    with lent.held(self._hold if left is None else min(left, self._hold)):
                        before = only_writer.set(lent)
                        try:
                            yield lent
                        finally:
                            only_writer.reset(before)
                finally:
                    lent.end()
        finally:
            over()

    def _take_back(self) -> None:
        self._pauses.after(_real.monotonic() - self._begun)
        self._places.give()

    @asynccontextmanager
    async def lend_async(self, limit: float | None) -> AsyncIterator[AsyncEngineTransaction]:
        from sqlalchemy.exc import DBAPIError

        limit = LIMIT if limit is None else limit
        async with self._engine.connect() as connection:
            lent = AsyncEngineTransaction(connection, self._store)
            try:
                await connection.run_sync(lambda _: lent.inside.begin(limit))
                with explained(limit, DBAPIError):
                    async with asyncio.timeout(limit):
                        yield lent
            finally:
                await connection.run_sync(lambda _: lent.inside.end())

    def close(self) -> None:
        """Does nothing: the engine is the application's."""


class Once:
    """Called by the thread that ends a transaction in time, and by its task."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._calls = [call]

    def __call__(self) -> None:
        with suppress(IndexError):
            self._calls.pop()()


class EngineTransaction:
    """On an SQLAlchemy `Connection`."""

    def __init__(
        self, connection: Any, store: Joins, over: Callable[[], None] = lambda: None
    ) -> None:
        self.connection = connection
        self._store = store
        self._over = over
        self._transaction: Any = None
        self._driver: Any = None
        """On SQLite: the driver's connection."""
        self._late = False
        self._hold = 0.0
        self._turn = threading.Lock()
        self._ending = False

    @property
    def used(self) -> bool:
        return True  # it begins before its task does

    @property
    def path(self) -> Path:
        """Of the file, on SQLite."""
        return Path(self._store.path)  # type: ignore[attr-defined]

    @property
    def is_over(self) -> bool:
        return self._ending or self._late

    def _begin(self) -> None:
        self._transaction = self.connection.begin()
        # The pool would give it to others, while it is still to be ended here.
        vars(self.connection)["close"] = _refuse_to_close

    def begin(self, limit: float) -> None:
        self._begin()
        milliseconds = min(2**31 - 1, max(1, int(limit * 1000)))
        self.connection.exec_driver_sql(_BEGIN.format(limit=f"{milliseconds}ms"))
        if self.connection.exec_driver_sql(_BEGUN).scalar() != "1":  # it is another one by now
            raise ConfigError(_AUTOCOMMIT)

    def commit(self, result: Result) -> bool:
        with self._turn:
            self._ending = True
        if self._late:
            raise too_late(self._hold)
        if self.connection.get_transaction() is not self._transaction:
            raise TransactionLost(ENDED_BY_TASK)
        sqlite = self.connection.dialect.name == "sqlite"
        for text in _CHECK_SQLITE if sqlite else _CHECK:
            self._check(text)
        if not record(self._store.join(self.connection), result):
            return False
        self._transaction.commit()
        return True

    def _check(self, text: str) -> None:
        from sqlalchemy.exc import DataError, OperationalError, ProgrammingError

        try:
            self.connection.exec_driver_sql(text)
        except (DataError, ProgrammingError, OperationalError) as error:
            raise TransactionLost(ENDED_BY_TASK) from error

    def end(self) -> None:
        """Roll back what was not committed."""
        with self._turn:
            self._ending = True
        vars(self.connection).pop("close", None)
        if self._late:
            self.connection.invalidate()  # it is read-only by now
        elif self._transaction is not None and self._transaction.is_active:
            self._transaction.rollback()
        elif self._driver is not None:  # a COMMIT that failed leaves it open on SQLite
            with suppress(self._driver.Error):
                self._driver.rollback()

    # -- SQLite has one writer ---------------------------------------------------------------------

    @contextmanager
    def held(self, hold: float) -> Iterator[None]:
        from sqlalchemy import event

        self._hold = hold
        self._begin()
        driver = self._driver = self.connection.connection.driver_connection
        for text in (_LOCK_SQLITE if driver.in_transaction else _BEGIN_SQLITE, _MARK_SQLITE):
            self.connection.exec_driver_sql(text)
        # Not by an interrupt: while a result is half read, that would end our ROLLBACK, too.
        driver.set_progress_handler(lambda: self._late, 20_000)
        listening = self.connection, "before_cursor_execute", self._check_begun
        event.listen(*listening)
        timer = threading.Timer(hold, self._end_in_time, [driver])
        timer.daemon = True
        timer.start()
        try:
            yield
        except Exception as error:
            if self._late and not isinstance(error, TransactionLost):
                raise too_late(self._hold) from error
            raise
        finally:
            timer.cancel()
            event.remove(*listening)
            driver.set_progress_handler(None, 0)

    def _check_begun(self, *_: object) -> None:
        """Before each statement: a conflict or a trigger may have ended the transaction by itself
        (OR ROLLBACK). Each statement after it would be committed at once, or begin another."""
        if not self._late and not self.connection.connection.driver_connection.in_transaction:
            raise TransactionLost(ENDED_BY_TASK)

    def _end_in_time(self, driver: Any) -> None:
        with self._turn:
            if self._ending:
                return
            self._late = True  # which ends the statement that runs
            for text in ("PRAGMA query_only = ON", "ROLLBACK"):
                with suppress(driver.Error):
                    driver.execute(text)
            self._over()


class AsyncEngineTransaction:
    """On an `AsyncConnection`."""

    def __init__(self, connection: Any, store: Joins) -> None:
        self.connection = connection
        self.inside = EngineTransaction(connection.sync_connection, store)

    async def commit(self, result: Result) -> bool:
        done: bool = await self.connection.run_sync(lambda _: self.inside.commit(result))
        return done


def _refuse_to_close() -> NoReturn:
    raise not_yours("close()")


def _check_threads(driver: Any) -> None:
    refused: list[Exception] = []

    def use() -> None:
        try:
            driver.cursor().close()
        except driver.ProgrammingError as error:
            refused.append(error)

    thread = threading.Thread(target=use, name="tenure-lent")
    thread.start()
    thread.join()
    if refused:
        raise ConfigError(_ONE_THREAD) from refused[0]


def is_engine(handed_in: object) -> bool:
    return made_by(handed_in, "sqlalchemy") and hasattr(handed_in, "dialect")


def _commits_at_once(engine: Any) -> bool:
    """As far as it can be seen without a connection."""
    inside = getattr(engine, "sync_engine", engine)
    chosen = inside.get_execution_options().get("isolation_level")
    return "AUTOCOMMIT" in (
        chosen or getattr(inside.dialect, "_on_connect_isolation_level", None) or ""
    )
