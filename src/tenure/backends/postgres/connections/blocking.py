"""Single statements on a blocking connection, on the caller's thread.

For calls that block anyway: this saves the detour over Tenure's own thread, and their statements
stay prepared, which saves most of their cost. A process has one such connection, used by one thread
at a time. Like all others it is made when it is needed and dropped at the first failure.

Prepared statements and settings belong to the session, which clients of a pooler share. A pooler is
noticed before either is used, and then this module is not used.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg import waiting
from psycopg.abc import PQGen
from psycopg.errors import InsufficientPrivilege
from psycopg.rows import dict_row

from tenure.backends.postgres.connections.connection import has_news, liveness
from tenure.backends.postgres.connections.database import NO_ANSWER, Database
from tenure.backends.postgres.connections.session import PROCESS, settings, settings_of
from tenure.backends.postgres.errors import UNPREPARED, translate
from tenure.backends.postgres.moments import understand
from tenure.backends.postgres.notifications import notifies, quiet
from tenure.backends.postgres.rights import HAS, Rights
from tenure.backends.postgres.statements import Rows
from tenure.errors import StoreError, StoreUnavailable
from tenure.process.clock import SystemClock

T = TypeVar("T")
STEP = 0.1
"""How many seconds pass between two checks whether the time is up."""
_real = SystemClock()  # a server that hangs does so in real time, whatever clock the backend has


class BlockingConnection:
    """One blocking connection of this process."""

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._name = name
        self._guard = threading.Lock()
        self._connection: TimedConnection | None = None
        self._told: float | None = None
        """The time limit that is set in the session."""
        self._closed = False
        self.pooled = False

    def one(self, text: str, values: Mapping[str, Any], patience: float) -> Rows:
        """Execute this statement as its own transaction.

        The server's limit is a little shorter than ours, so that nothing lands after we gave up.
        """
        notifications = self._database.notifications
        if notifies(text) and notifications.may_notify():
            try:
                return self._ask(text, values, patience)
            except StoreError as error:
                if not notifications.refused(error):
                    raise
        return self._ask(*quiet((text, values)), patience)

    def _ask(self, text: str, values: Mapping[str, Any], patience: float) -> Rows:
        self._database.transactions += 1
        patience = min(patience, max(2.0, 2 * self._database.longest))
        until = _real.monotonic() + patience
        if not self._guard.acquire(timeout=patience):
            raise StoreUnavailable(NO_ANSWER)
        try:
            return self._one(text, values, min(0.9 * patience, self._database.longest), until)
        except (psycopg.Error, OSError) as error:
            rights = self._rights() if isinstance(error, InsufficientPrivilege) else None
            self._drop()
            self.pooled = self.pooled or isinstance(error, UNPREPARED)
            translate(error, rights)
        except BaseException:
            self._drop()
            raise
        finally:
            if self._closed:
                self._drop()
            self._guard.release()

    def close(self) -> None:
        """Never waits: if a call is under way, that call closes the connection."""
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

    def _connect(self) -> TimedConnection:
        database = self._database
        connection = self._connection = TimedConnection.connect(
            database.url, autocommit=True, row_factory=dict_row, **liveness(database.longest)
        )
        understand(connection)
        connection.until = _real.monotonic() + database.longest
        [row] = connection.execute(PROCESS).fetchall()
        if row["pid"] != connection.info.backend_pid:
            self.pooled = True
            raise StoreUnavailable("a pooler has come between this process and PostgreSQL")
        return connection

    def _rights(self) -> Rights | None:
        """The rights of the role that was refused something; None if they cannot be read."""
        schema = self._database.schema
        with suppress(psycopg.Error, OSError, StoreUnavailable):
            if self._connection is not None:
                rows = self._connection.execute(HAS, {"schema": schema}, prepare=False).fetchall()
                return Rights(schema, rows)
        return None

    def _drop(self) -> None:
        connection, self._connection, self._told = self._connection, None, None
        if connection is not None:
            connection.close()


class TimedConnection(psycopg.Connection[Any]):
    """A connection that gives up waiting at `until`: the driver has no such limit."""

    until = float("inf")

    def wait(self, gen: PQGen[T], interval: float = STEP, timeout: float | None = None) -> T:
        # Unlike the driver's: if that is interrupted, it asks the server to cancel and waits for
        # the answer. Here the connection is dropped instead.
        return waiting.wait(in_time(gen, self.until), self.pgconn.socket, interval)


def in_time(gen: PQGen[T], until: float) -> Generator[Any, Any, T]:
    """The driver's conversation with the server, until the time is up."""
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and _real.monotonic() > until:
                raise StoreUnavailable(NO_ANSWER)
            wanted = gen.send(ready)
    except StopIteration as end:
        result: T = end.value
        return result
