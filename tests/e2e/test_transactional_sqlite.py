"""Transactional tasks on SQLite: its one write lock, and transactions that end by themselves."""

from __future__ import annotations

import sqlite3
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import pytest
import sqlalchemy

from tenure import ConfigError, Leases, Scheduler
from tests.e2e.test_transactional import a_scheduler, ended, insert, is_free, orders
from tests.e2e.test_transactional import own_file as own_file  # noqa: PLC0414 - a fixture


def test_lend_that_fails_keeps_no_lock(own_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = a_scheduler(own_file)
    start = threading.Thread.start
    failed: list[str] = []

    def fails_once(thread: threading.Thread) -> None:
        if thread.name == "tenure-lent" and not failed:
            failed.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    @scheduler.task(transactional=True, retries=1)
    def bill(connection: sqlite3.Connection) -> None:
        connection.execute(insert(1))

    monkeypatch.setattr(threading.Thread, "start", fails_once)
    with scheduler:
        after = ended(scheduler, scheduler.enqueue(bill))
    assert (after.state, after.attempt) == ("succeeded", 2)
    assert failed
    assert orders(own_file) == [1]


ENDINGS = {
    "or rollback": "INSERT OR ROLLBACK INTO once VALUES (1)",
    "on conflict rollback": "INSERT INTO only VALUES (1)",
    "commit": "COMMIT",
    "end": "/* so */ END",
    "rollback": "ROLLBACK",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_nothing_is_written_after_the_end_of_its_transaction(own_file: str, ending: str) -> None:
    with closing(sqlite3.connect(own_file.removeprefix("sqlite:///"))) as setting, setting:
        setting.execute("CREATE TABLE once (id INTEGER PRIMARY KEY)")
        setting.execute("CREATE TABLE only (id INTEGER UNIQUE ON CONFLICT ROLLBACK)")
        setting.execute("INSERT INTO once VALUES (1)")
        setting.execute("INSERT INTO only VALUES (1)")
    setting.close()
    scheduler = a_scheduler(own_file)

    @scheduler.task(transactional=True, retries=1)
    def bill(connection: sqlite3.Connection, catches: bool) -> None:
        connection.execute("INSERT INTO orders VALUES (?)", (1,))
        with suppress(sqlite3.Error):
            connection.execute(ENDINGS[ending])
        # The same statement once more: one that was prepared before.
        for number in (2, 3):
            try:
                connection.cursor().execute("INSERT INTO orders VALUES (?)", (number,))
            except sqlite3.Error:
                if not catches:
                    raise

    with scheduler:
        for catches in (True, False):
            after = ended(scheduler, scheduler.enqueue(bill, kwargs={"catches": catches}))
            assert (after.state, after.attempt) == ("failed", 2)
            assert "TransactionLost: the task ended the transaction" in (after.error or "")
    assert orders(own_file) == []


REFUSED: dict[str, Callable[[sqlite3.Connection], object]] = {
    "script": lambda connection: connection.executescript(insert(2)),
    "cursor's script": lambda connection: connection.cursor().executescript(insert(2)),
    "isolation level": lambda connection: setattr(connection, "isolation_level", None),
    "autocommit": lambda connection: setattr(connection, "autocommit", True),
    "authorizer": lambda connection: connection.set_authorizer(None),
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_would_end_it_is_refused(own_file: str, call: str) -> None:
    scheduler = a_scheduler(own_file)

    @scheduler.task(transactional=True)
    def bill(connection: sqlite3.Connection) -> None:
        connection.execute(insert(1))
        with pytest.raises(ConfigError, match="lent to a transactional task"):
            REFUSED[call](connection)

    with scheduler:
        after = ended(scheduler, scheduler.enqueue(bill))
    assert (after.state, after.error) == ("succeeded", None)
    assert orders(own_file) == [1]


@pytest.mark.parametrize("by", ["a file", "an engine"])
def test_change_beside_its_own_transaction_is_refused_at_once(own_file: str, by: str) -> None:
    engine = sqlalchemy.create_engine(own_file)
    scheduler = Scheduler(own_file if by == "a file" else engine)
    another = Scheduler(own_file, namespace="another")
    leases = Leases(own_file)

    @scheduler.task
    def later() -> None: ...

    @another.task
    def elsewhere() -> None: ...

    calls: list[Callable[[], object]] = [
        lambda: scheduler.enqueue(later),
        lambda: scheduler.cancel(waiting),
        lambda: scheduler.retry(waiting),
        lambda: another.enqueue(elsewhere),
        lambda: leases.acquire("job", ttl=5),
        lambda: leases.hold("job", ttl=5).__enter__(),
    ]

    @scheduler.task(transactional=True)
    def bill(connection: Any) -> None:
        begun = time.monotonic()
        for call in calls:
            with pytest.raises(ConfigError, match="pass connection=connection"):
                call()
        assert time.monotonic() - begun < 0.5  # of its second
        scheduler.enqueue(later, connection=connection)

    with scheduler, leases:
        waiting = scheduler.enqueue(later, delay=3600)
        another.enqueue(elsewhere)
        after = ended(scheduler, scheduler.enqueue(bill))
        assert (after.state, after.error) == ("succeeded", None)
        assert len(scheduler.runs(task=later)) == 2
        another.enqueue(elsewhere)  # it is over
    another.stop()
    engine.dispose()


class OwnCursor(sqlite3.Cursor):
    pass


USES: dict[str, Callable[[sqlite3.Connection], object]] = {
    "execute": lambda connection: connection.execute("SELECT 1"),
    "executemany": lambda connection: connection.executemany(insert(0), []),
    "cursor": lambda connection: connection.cursor().execute("SELECT 1"),
    "cursor's executemany": lambda connection: connection.cursor().executemany(insert(0), []),
    "own cursor": lambda connection: connection.cursor(OwnCursor),
    "in_transaction": lambda connection: connection.in_transaction,
    "iterdump": lambda connection: list(connection.iterdump()),
    "serialize": lambda connection: connection.serialize(),
    "blobopen": lambda connection: connection.blobopen("orders", "id", 7, readonly=True).close(),
}


@pytest.mark.parametrize("use", USES)
def test_transaction_begins_when_the_connection_is_first_used(own_file: str, use: str) -> None:
    with closing(sqlite3.connect(own_file.removeprefix("sqlite:///"))) as other, other:
        other.execute("CREATE TABLE IF NOT EXISTS orders (id)")
        other.execute("INSERT INTO orders (rowid, id) VALUES (7, CAST('x' AS BLOB))")
    scheduler = a_scheduler(own_file)

    @scheduler.task(transactional=True)
    def bill(connection: sqlite3.Connection) -> list[bool]:
        before = [is_free(own_file)]
        with suppress(sqlite3.Warning), warnings.catch_warnings(action="ignore"):
            USES[use](connection)
        return [*before, is_free(own_file), connection.in_transaction]

    with scheduler:
        assert scheduler.result(scheduler.enqueue(bill), 20) == [True, False, True]


def test_task_that_does_not_use_its_connection_keeps_nobody_from_writing(own_file: str) -> None:
    scheduler = a_scheduler(own_file)
    begun, go_on = threading.Event(), threading.Event()

    @scheduler.task(transactional=True)
    def bill(connection: sqlite3.Connection, uses: bool) -> None:
        begun.set()
        assert go_on.wait(20)
        if uses:
            connection.execute(insert(3))

    with scheduler, closing(sqlite3.connect(own_file.removeprefix("sqlite:///"))) as other:
        for uses in (True, False):
            run = scheduler.enqueue(bill, kwargs={"uses": uses})
            assert begun.wait(20)
            with other:
                other.execute(insert(4))
            go_on.set()
            assert ended(scheduler, run).state == "succeeded"
            begun.clear()
            go_on.clear()
    assert orders(own_file) == [3, 4, 4]


def test_cursor_that_was_made_past_the_connection_writes_nothing(own_file: str) -> None:
    scheduler = a_scheduler(own_file)

    @scheduler.task(transactional=True)
    def bill(connection: sqlite3.Connection) -> None:
        sqlite3.Cursor(connection).execute(insert(1))

    with scheduler:
        after = ended(scheduler, scheduler.enqueue(bill))
    assert after.state == "failed"
    assert "make cursors with connection.cursor()" in (after.error or "")
    assert orders(own_file) == []
