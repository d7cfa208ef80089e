"""Single statements on a blocking connection, on the thread of whoever asks.

For plain calls that block anyway: they need no way to Tenure's own thread and back, and their
statements stay prepared, which is most of what they cost. There is one such connection, used by one
thread at a time; like all others it is made when it is needed and dropped at the first failure.

Prepared statements and settings belong to the session. Behind a pooler a session is nobody's own:
that is noticed before anything of the kind is asked of it, and then this is not used.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from typing import Any, TypeVar

import psycopg
from psycopg import waiting
from psycopg.abc import PQGen
from psycopg.rows import DictRow, dict_row

from tenure.backends.postgres.database import (
    NO_ANSWER,
    UNPREPARED,
    Database,
    has_news,
    liveness,
)
from tenure.backends.postgres.errors import translate
from tenure.backends.postgres.session import PROCESS, settings, settings_of
from tenure.backends.postgres.statements import Rows
from tenure.clock import SystemClock
from tenure.errors import StoreUnavailable

T = TypeVar("T")
STEP = 0.1
"""How often a wait for the server looks whether its time is up."""
_real = SystemClock()  # a server that hangs does so in real time, whatever clock the backend has


class Line:
    """One blocking connection of this process."""

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._name = name
        self._guard = threading.Lock()
        self._connection: _Connection | None = None
        self._told: float | None = None
        """The limit that the server was told."""
        self._closed = False
        self.pooled = False

    def one(self, text: str, values: Mapping[str, Any], patience: float) -> Rows:
        """Execute this statement, as a transaction of its own.

        The server gives it up a little sooner than we do, so that nothing lands after that.
        """
        self._database.transactions += 1
        patience = min(patience, max(2.0, 2 * self._database.longest))
        until = _real.monotonic() + patience
        if not self._guard.acquire(timeout=patience):
            raise StoreUnavailable(NO_ANSWER)
        try:
            return self._one(text, values, min(0.9 * patience, self._database.longest), until)
        except (psycopg.Error, OSError) as error:
            self._drop()
            self.pooled = self.pooled or isinstance(error, UNPREPARED)
            translate(error)
        except BaseException:
            self._drop()
            raise
        finally:
            if self._closed:
                self._drop()
            self._guard.release()

    def close(self) -> None:
        """Never waits: if a call is under way, that one closes it."""
        self._closed = True
        if self._guard.acquire(blocking=False):
            self._drop()
            self._guard.release()

    def _one(self, text: str, values: Mapping[str, Any], limit: float, until: float) -> Rows:
        connection = self._connection
        if connection is None or has_news(connection):
            self._drop()
            connection = self._connect()
        connection.until = until
        if limit != self._told:
            told = settings_of(limit, self._name, self._database.path, local=False)
            connection.execute(settings(connection.info.server_version), told)
            self._told = limit
        return connection.execute(text, values, prepare=True).fetchall()

    def _connect(self) -> _Connection:
        database = self._database
        connection = self._connection = _Connection.connect(
            database.url, autocommit=True, row_factory=dict_row, **liveness(database.longest)
        )
        connection.until = _real.monotonic() + database.longest
        [row] = connection.execute(PROCESS).fetchall()
        if row["pid"] != connection.info.backend_pid:
            self.pooled = True
            raise StoreUnavailable("a pooler has come between this process and PostgreSQL")
        return connection

    def _drop(self) -> None:
        connection, self._connection, self._told = self._connection, None, None
        if connection is not None:
            connection.close()


class _Connection(psycopg.Connection[DictRow]):
    """Does not wait for the server beyond a point in time: the driver has no such limit."""

    until = float("inf")

    def wait(self, gen: PQGen[T], interval: float = STEP, timeout: float | None = None) -> T:
        # Not the driver's own way: interrupted, it would ask the server to cancel, and wait for
        # that. Here the connection is dropped instead.
        return waiting.wait(self._in_time(gen), self.pgconn.socket, interval)

    def _in_time(self, gen: PQGen[T]) -> Generator[Any, Any, T]:
        """The driver's own talk with the server, until the time is up."""
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and _real.monotonic() > self.until:
                    raise StoreUnavailable(NO_ANSWER)
                wanted = gen.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result
