"""Sessions of transactional tasks on PostgreSQL: how many, and how long one may take."""

from __future__ import annotations

import queue
import threading
from typing import Any

import psycopg
import pytest
import sqlalchemy

from tenure import Scheduler
from tenure.backends.postgres import lending
from tests.e2e.command import until
from tests.e2e.test_joining import eyes
from tests.e2e.test_joining import postgres_url as postgres_url  # noqa: PLC0414 - a fixture
from tests.e2e.test_transactional import a_scheduler, ended, insert, orders


def of_tasks(url: str) -> int:
    """Sessions that the server has for transactional tasks."""
    with eyes(url) as other:
        [row] = other.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name NOT LIKE 'tenure %' AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'"
        ).fetchall()
    return int(row[0])


def test_connections_are_made_when_needed_and_closed_when_idle(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lending, "REST", 0.2)
    until(lambda: of_tasks(postgres_url) == 0, "those of other tests to end")
    scheduler = a_scheduler(postgres_url, lent_connections=2)
    most: list[int] = []
    running = threading.Semaphore(0)

    @scheduler.task(transactional=True)
    def bill(connection: psycopg.Connection) -> None:
        running.release()
        connection.execute("SELECT pg_sleep(0.05)")
        with eyes(postgres_url) as other:
            [row] = other.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tenure task'"
            ).fetchall()
        most.append(row[0])

    with scheduler:
        until(lambda: of_tasks(postgres_url) == 0, "the node's own to have their names")
        assert not scheduler._runtime._execution.lender._idle  # type: ignore[union-attr]
        runs = [scheduler.enqueue(bill) for _ in range(8)]
        assert all(ended(scheduler, run).state == "succeeded" for run in runs)
        assert 1 <= max(most) <= 2
        until(lambda: of_tasks(postgres_url) == 0, "idle ones to be closed")


@pytest.mark.parametrize("by", ["its own", "an engine"])
@pytest.mark.parametrize("what", ["SELECT pg_sleep(20)", "idle"])
def test_server_ends_what_takes_longer_than_the_timeout(
    postgres_url: str, what: str, by: str
) -> None:
    engine = sqlalchemy.create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"))
    scheduler = a_scheduler(postgres_url if by == "its own" else engine)
    go_on = threading.Event()
    pids: queue.Queue[int] = queue.Queue()

    @scheduler.task(transactional=True, timeout=0.5)
    def bill(connection: Any) -> None:
        execute = getattr(connection, "exec_driver_sql", connection.execute)
        pids.put(execute("SELECT pg_backend_pid()").fetchone()[0])
        execute(insert(9))
        if what == "idle":
            go_on.wait(20)
        execute("SELECT 1" if what == "idle" else what)

    def has_ended(pid: int) -> bool:
        with eyes(postgres_url) as other:
            found = other.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (pid,))
            return found.fetchone() is None

    with scheduler:
        run = scheduler.enqueue(bill)
        if what == "idle":
            pid = pids.get(timeout=60)
            until(lambda: has_ended(pid), "the end of its session")
            go_on.set()
        after = ended(scheduler, run)
    engine.dispose()
    assert after.state == "failed"
    assert "Tenure: the server ends what takes longer than 0.5 s" in (after.error or "")
    assert 9 not in orders(postgres_url)


@pytest.mark.parametrize("by", ["its own", "an engine"])
def test_server_ends_short_statements_that_take_too_long_together(
    postgres_url: str, by: str
) -> None:
    with eyes(postgres_url) as other:
        if other.info.server_version < 170_000:
            pytest.skip("servers have a limit for the whole transaction from version 17 on")
    engine = sqlalchemy.create_engine(postgres_url.replace("postgresql:", "postgresql+psycopg:"))
    scheduler = Scheduler(postgres_url if by == "its own" else engine, namespace="short")
    statements = 0

    @scheduler.task(transactional=True, timeout=0.5)
    def bill(connection: Any) -> None:
        nonlocal statements
        execute = connection.execute if by == "its own" else connection.exec_driver_sql
        execute(insert(19))
        for _ in range(400):
            execute("SELECT pg_sleep(0.05)")
            statements += 1

    with scheduler:
        after = ended(scheduler, scheduler.enqueue(bill))
        if by == "an engine":
            with engine.connect() as usable:
                usable.exec_driver_sql("SELECT 1")
    engine.dispose()
    assert after.state == "failed"
    # The server's own words are lost if it closes the connection while the client is sending.
    assert "Tenure: the server ends what takes longer than 0.5 s" in (after.error or "")
    assert 0 < statements < 200
    assert 19 not in orders(postgres_url)
