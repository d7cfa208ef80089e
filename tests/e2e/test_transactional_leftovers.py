"""What a transactional task on SQLite leaves behind: nothing for the next, and no lock."""

from __future__ import annotations

import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import pytest
import sqlalchemy

from tenure import Run
from tenure.backends.sqlite.connection import Connection
from tenure.backends.sqlite.task_transaction import LentFile
from tests.e2e.test_transactional import a_scheduler, ended, insert, is_free, orders
from tests.e2e.test_transactional import own_file as own_file  # noqa: PLC0414 - a fixture

KEPT: list[object] = []
LEAVES: dict[str, Callable[[sqlite3.Connection], object]] = {
    "nothing": lambda connection: connection.execute(insert(1)),
    "a look": lambda connection: connection.execute("PRAGMA table_info (orders)").fetchall(),
    "a temporary table": lambda connection: connection.execute("CREATE TEMP TABLE mine (x)"),
    "a temporary view": lambda connection: connection.execute("CREATE TEMP VIEW mine AS SELECT 1"),
    "a pragma": lambda connection: connection.execute("PRAGMA recursive_triggers = ON"),
    "another file": lambda connection: connection.execute("ATTACH ':memory:' AS other"),
    "a function": lambda connection: connection.create_function("twice", 1, lambda x: 2 * x),
    "a collation": lambda connection: connection.create_collation("odd", lambda a, b: 0),
    "a trace": lambda connection: connection.set_trace_callback(lambda _: None),
    "a limit": lambda connection: connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 99_999),
    "a row factory": lambda connection: setattr(connection, "row_factory", sqlite3.Row),
    "a text factory": lambda connection: setattr(connection, "text_factory", bytes),
    "an attribute": lambda connection: setattr(connection, "mine", 1),
    "a cursor": lambda connection: KEPT.append(connection.execute("SELECT 1")),
    "the connection": KEPT.append,
    "a weak reference": lambda connection: KEPT.append(weakref.ref(connection)),
}


@pytest.mark.parametrize("what", LEAVES)
def test_connection_is_used_again_only_if_nobody_can_tell(own_file: str, what: str) -> None:
    scheduler = a_scheduler(own_file)
    KEPT.clear()

    @scheduler.task(transactional=True)
    def leaves(connection: sqlite3.Connection) -> None:
        LEAVES[what](connection)

    @scheduler.task(transactional=True)
    def looks(connection: sqlite3.Connection) -> None:
        connection.execute("SELECT 1").fetchall()

    opened = 0

    def counting(file: LentFile, create: bool) -> None:
        nonlocal opened
        opened += 1
        Connection._open(file, create)

    with pytest.MonkeyPatch.context() as patched, scheduler:
        patched.setattr(LentFile, "_open", counting)
        for task in (looks, leaves, looks):
            assert ended(scheduler, scheduler.enqueue(task)).state == "succeeded"
        assert opened == (1 if what in ("nothing", "a look") else 2)
    for kept in KEPT:
        if not isinstance(kept, weakref.ref):
            with pytest.raises(sqlite3.ProgrammingError, match="closed"):
                kept.execute("SELECT 1")  # type: ignore[attr-defined]


HALF_READ = {
    "a query": "SELECT 1 UNION ALL SELECT 2",
    "an insert": "INSERT INTO orders VALUES (8), (9) RETURNING id",
}


@pytest.mark.parametrize("through", ["a file", "an engine"])
@pytest.mark.parametrize("what", HALF_READ)
def test_result_that_is_half_read_does_not_keep_the_lock_beyond_its_time(
    own_file: str, what: str, through: str
) -> None:
    engine = sqlalchemy.create_engine(own_file)
    scheduler = a_scheduler(own_file if through == "a file" else engine)
    begun, go_on = threading.Event(), threading.Event()

    @scheduler.task(transactional=True)
    def bill(connection: Any) -> None:
        execute = getattr(connection, "exec_driver_sql", connection.execute)
        execute(insert(1))
        if through == "an engine":
            execute = connection.connection.driver_connection.cursor().execute
        rows = execute(HALF_READ[what])
        rows.fetchone()
        begun.set()
        go_on.wait(30)

    with scheduler:
        run = scheduler.enqueue(bill)
        assert begun.wait(20)
        time.sleep(1.2)
        assert is_free(own_file)
        go_on.set()
        assert "TransactionLost: the task had its transaction open" in (
            ended(scheduler, run).error or ""
        )
    engine.dispose()
    assert orders(own_file) == []


@pytest.mark.parametrize("what", HALF_READ)
def test_failure_amid_a_result_leaves_the_lock_at_once(own_file: str, what: str) -> None:
    """Its traceback has the cursor, which is there until the garbage is collected."""
    scheduler = a_scheduler(own_file)
    KEPT.clear()

    @scheduler.task(transactional=True, retries=1)
    def bill(run: Run, connection: sqlite3.Connection) -> None:
        connection.execute(insert(run.attempt))
        rows = connection.execute(HALF_READ[what])
        rows.fetchone()
        KEPT.append(rows)
        if run.attempt == 1:
            raise ZeroDivisionError

    with scheduler:
        begun = time.monotonic()
        after = ended(scheduler, scheduler.enqueue(bill))
        assert (after.state, after.attempt, after.error) == ("succeeded", 2, None)
        assert time.monotonic() - begun < 3.0
    for rows in KEPT:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            rows.fetchone()  # type: ignore[attr-defined]
    assert orders(own_file) == ([2] if what == "a query" else [2, 8, 9])


def test_blob_is_not_written_after_a_conflict_that_rolled_back(own_file: str) -> None:
    with closing(sqlite3.connect(own_file.removeprefix("sqlite:///"))) as setting, setting:
        setting.execute("CREATE TABLE once (id INTEGER PRIMARY KEY, x)")
        setting.execute("INSERT INTO once VALUES (1, x'00')")
    scheduler = a_scheduler(own_file)

    @scheduler.task(transactional=True)
    def bill(connection: sqlite3.Connection, catches: bool) -> None:
        with suppress(sqlite3.IntegrityError):
            connection.execute("INSERT OR ROLLBACK INTO once VALUES (1, '')")
        with suppress(*[sqlite3.OperationalError] * catches):
            connection.blobopen("once", "x", 1).write(b"x")

    with scheduler:
        for catches in (True, False):
            after = ended(scheduler, scheduler.enqueue(bill, kwargs={"catches": catches}))
            assert "TransactionLost: the task ended the transaction" in (after.error or "")
    with closing(sqlite3.connect(own_file.removeprefix("sqlite:///"))) as other:
        assert other.execute("SELECT x FROM once").fetchall() == [(b"\0",)]


def test_changes_are_counted_from_the_beginning_of_each_task(own_file: str) -> None:
    scheduler = a_scheduler(own_file)

    @scheduler.task(transactional=True)
    def bill(connection: sqlite3.Connection) -> list[int]:
        before = connection.total_changes
        connection.execute(insert(1))
        return [before, connection.total_changes]

    with scheduler:
        for _ in range(3):
            assert scheduler.result(scheduler.enqueue(bill), 20) == [0, 1]


@pytest.mark.parametrize("fails", [False, True])
def test_thread_that_a_task_leaves_behind_does_not_keep_the_lock(
    own_file: str, fails: bool
) -> None:
    scheduler = a_scheduler(own_file)
    threads: list[threading.Thread] = []

    def counts(connection: sqlite3.Connection) -> None:
        with suppress(Exception):  # it is closed meanwhile
            connection.execute(
                "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 200000000)"
                " SELECT count(*) FROM n"
            ).fetchone()

    @scheduler.task(transactional=True)
    def bill(connection: sqlite3.Connection) -> None:
        connection.execute(insert(1))
        threads.append(threading.Thread(target=counts, args=[connection]))
        threads[0].start()
        time.sleep(0.2)  # it is in SQLite by then
        if fails:
            raise ZeroDivisionError

    with scheduler:
        begun = time.monotonic()
        after = ended(scheduler, scheduler.enqueue(bill))
        assert time.monotonic() - begun < 3.0
        threads[0].join(3.0)
        assert not threads[0].is_alive()
        assert is_free(own_file)
    assert after.state == ("failed" if fails else "succeeded")
    assert orders(own_file) == ([] if fails else [1])


def test_transaction_that_begins_as_its_task_ends_keeps_nobody_waiting(own_file: str) -> None:
    """By a thread that the task has left behind."""
    scheduler = a_scheduler(own_file)
    over, begins = threading.Event(), threading.Event()
    begin = LentFile._begin_patiently
    raised: list[BaseException] = []
    threads: list[threading.Thread] = []

    def slowly(lent: LentFile) -> None:
        begin(lent)
        begins.set()
        assert over.wait(20)

    def writes(connection: sqlite3.Connection) -> None:
        try:
            connection.execute(insert(1))
        except sqlite3.Error as error:
            raised.append(error)

    @scheduler.task(transactional=True)
    def leaves(connection: sqlite3.Connection) -> None:
        threads.append(threading.Thread(target=writes, args=[connection]))
        threads[0].start()
        assert begins.wait(20)

    @scheduler.task(transactional=True)
    def bill(connection: sqlite3.Connection) -> None:
        connection.execute(insert(2))

    with scheduler:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(LentFile, "_begin_patiently", slowly)
            assert ended(scheduler, scheduler.enqueue(leaves)).state == "succeeded"
            over.set()
            threads[0].join(20)
        assert ended(scheduler, scheduler.enqueue(bill)).state == "succeeded"
        assert [type(error) for error in raised] == [sqlite3.ProgrammingError]
    assert orders(own_file) == [2]
