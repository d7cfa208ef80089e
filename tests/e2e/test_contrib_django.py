"""Django's connections in tasks, on a real PostgreSQL that ends them as servers do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError, connection, connections, transaction

from tenure import Scheduler, every
from tenure.contrib.django import fresh_connections
from tenure.testing import testing
from tests.e2e.django_project import set_up
from tests.support.servers import PostgresServer


@pytest.fixture(scope="module", autouse=True)
def project(postgres: PostgresServer) -> Iterator[None]:
    set_up(postgres)
    yield
    connections.close_all()


def pid() -> int:
    """Of the server's process at the other end of this thread's connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def end(postgres: PostgresServer, number: int) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 10000)", (number,))


def test_without_it_a_connection_that_the_server_ended_fails_every_task(
    postgres: PostgresServer,
) -> None:
    scheduler = Scheduler("sqlite:///never.db")
    scheduler.task(every(hours=1), name="work")(pid)
    end(postgres, pid())
    with testing(scheduler) as world:
        world.advance(hours=3)
        assert [type(failure.error) for failure in world.failures] == [OperationalError] * 3
    connections.close_all()


def test_a_task_that_meets_one_is_the_last(postgres: PostgresServer) -> None:
    """Django learns that a connection is broken by an error: whoever meets it fails, and is tried
    again; what comes after has another connection."""
    scheduler = Scheduler("sqlite:///never.db")
    scheduler.task(every(hours=1), name="work", retries=1)(pid)
    scheduler.around(fresh_connections)
    end(postgres, pid())
    with testing(scheduler) as world:
        world.advance(hours=3, minutes=1)
        assert [failure.attempt for failure in world.failures] == [1]
        assert world.ran("work") == 3


def test_an_error_of_the_task_is_its_own(postgres: PostgresServer) -> None:
    scheduler = Scheduler("sqlite:///never.db")

    @scheduler.task(every(hours=1))
    def fails() -> None:
        end(postgres, pid())
        pid()

    scheduler.around(fresh_connections)
    with testing(scheduler) as world:
        world.advance(hours=1)
        assert [type(failure.error) for failure in world.failures] == [OperationalError]
    assert connection.connection is None


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_on_real_threads_and_loops(postgres: PostgresServer, kind: str) -> None:
    scheduler, pids = Scheduler("memory://", concurrency=1), list[int]()

    def work() -> None:
        pids.append(pid())
        if len(pids) == 3:
            connections.close_all()  # this thread's: it ends with the scheduler

    async def coroutine() -> None:
        await asyncio.sleep(0)
        await sync_to_async(work)()

    function: Any = work if kind == "plain" else coroutine
    scheduler.task(every(hours=1), name="work")(function)
    scheduler.around(fresh_connections)
    ended = threading.Semaphore(0)
    scheduler.on("run.succeeded", lambda fact: ended.release())
    scheduler.on("run.failed", lambda fact: ended.release())
    with scheduler:
        for number in range(4):
            scheduler.run_now("work")
            assert ended.acquire(timeout=30)
            if number == 1:
                end(postgres, pids[1])
        states = [run.state for run in reversed(scheduler.runs())]
    assert states == ["succeeded", "succeeded", "failed", "succeeded"]
    first, second, third = pids
    assert first == second != third


def test_with_health_checks_no_task_meets_one(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = Scheduler("sqlite:///never.db")
    scheduler.task(every(hours=1), name="work")(pid)
    scheduler.around(fresh_connections)
    monkeypatch.setitem(connection.settings_dict, "CONN_HEALTH_CHECKS", True)
    connections.close_all()
    end(postgres, pid())
    with testing(scheduler) as world:
        world.advance(hours=2)
        assert not world.failures
        assert world.ran("work") == 2
    connections.close_all()


@pytest.mark.parametrize("kind", ["plain", "coroutine"])
def test_in_a_world_tasks_are_part_of_the_transaction_of_the_test(kind: str) -> None:
    """As Django's TestCase has one."""
    scheduler = Scheduler("sqlite:///never.db")

    def work() -> None:
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO shop_order VALUES (1)")

    async def coroutine() -> None:
        await sync_to_async(work)()

    function: Any = work if kind == "plain" else coroutine
    scheduler.task(every(hours=1), name="work")(function)
    scheduler.around(fresh_connections)
    with transaction.atomic(), testing(scheduler) as world, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE shop_order (id int)")
        world.advance(hours=2)
        assert not world.failures
        cursor.execute("SELECT count(*) FROM shop_order")
        assert cursor.fetchone() == (2,)
        transaction.set_rollback(True)
    assert "shop_order" not in connection.introspection.table_names()
