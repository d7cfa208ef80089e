"""Transactional tasks on PostgreSQL: what ends them, and what is left for the next task."""

from __future__ import annotations

import queue
import threading
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from tenure import AsyncScheduler, Run
from tenure.backends.postgres.connections.blocking import TimedConnection
from tenure.backends.postgres.lending_texts import PREPARED
from tenure.errors import TransactionLost
from tests.e2e.command import until
from tests.e2e.test_completing import ISOLATION_LEVELS, Outlived
from tests.e2e.test_joining import eyes
from tests.e2e.test_joining import postgres_url as postgres_url  # noqa: PLC0414 - a fixture
from tests.e2e.test_transactional import _numbers, a_scheduler, ended, insert, orders


async def test_coroutine_gets_an_async_connection(postgres_url: str) -> None:
    scheduler = AsyncScheduler(postgres_url, namespace=f"t{next(_numbers)}")

    @scheduler.task(transactional=True)
    async def bill(connection: psycopg.AsyncConnection) -> int:
        async with connection.transaction():  # a savepoint
            await connection.execute(insert(77))
        with suppress(ZeroDivisionError):
            async with connection.transaction():
                await connection.execute(insert(78))
                raise ZeroDivisionError
        return 5

    async with scheduler:
        run = await scheduler.enqueue(bill)
        assert await scheduler.result(run, timeout=20) == 5
    assert {77, 78} & set(orders(postgres_url)) == {77}


@pytest.mark.parametrize("level", ISOLATION_LEVELS)
def test_attempt_that_lost_its_claim_leaves_nothing(postgres_url: str, level: str) -> None:
    """On SQLite nobody can take it away while the transaction is open: see the contract."""
    option = "-c default_transaction_isolation=" + level.replace(" ", "\\ ")
    outlived = Outlived(f"{postgres_url}?options={quote(option)}")
    refused: queue.Queue[Any] = queue.Queue()
    outlived.scheduler.on("run.refused", refused.put)
    outlived.scheduler.tasks._tasks.clear()

    @outlived.scheduler.task(transactional=True)
    def bill(run: Run, connection: psycopg.Connection) -> None:
        if not outlived.begun.is_set():
            [[shown]] = connection.execute("SHOW transaction_isolation").fetchall()
            assert shown == level.lower()
            connection.execute(insert(5))
            outlived.begun.set()
            assert outlived.go_on.wait(30)
            outlived.ended.set()

    outlived.execute(None)
    assert (
        refused.get(timeout=60)
        .error.splitlines()[-1]
        .startswith(("tenure.errors.Fenced", "psycopg.errors.SerializationFailure"))
    )
    assert 5 not in orders(postgres_url)


def test_error_that_was_caught_has_ended_the_transaction(postgres_url: str) -> None:
    scheduler = a_scheduler(postgres_url)

    @scheduler.task(transactional=True)
    def bill(connection: psycopg.Connection) -> None:
        connection.execute(insert(6))
        with suppress(psycopg.Error):
            connection.execute("SELECT 1 / 0")

    with scheduler:
        run = ended(scheduler, scheduler.enqueue(bill))
    assert run.state == "failed"
    assert "Put what may fail into `with connection.transaction():`" in (run.error or "")
    assert 6 not in orders(postgres_url)


def test_deferred_constraint_of_the_user_is_checked_with_the_users_path(postgres_url: str) -> None:
    with eyes(postgres_url) as other:
        other.execute(
            "CREATE FUNCTION count_orders() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " IF (SELECT count(*) FROM orders WHERE id = 8) > 1 THEN RAISE 'twice'; END IF;"
            " RETURN NULL; END $$;"
            "CREATE CONSTRAINT TRIGGER once AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION count_orders()"
        )
    scheduler = a_scheduler(postgres_url)

    @scheduler.task(transactional=True)
    def bill(connection: psycopg.Connection) -> None:
        connection.execute(insert(8))

    try:
        with scheduler:
            states = [ended(scheduler, scheduler.enqueue(bill)).state for _ in range(2)]
    finally:
        with eyes(postgres_url) as other:
            other.execute("DROP FUNCTION count_orders CASCADE")
    assert states == ["succeeded", "failed"]
    assert orders(postgres_url).count(8) == 1


def test_nothing_of_a_session_is_left_for_the_next_task(postgres_url: str) -> None:
    scheduler = a_scheduler(postgres_url, lent_connections=1)

    @scheduler.task(transactional=True)
    def look(connection: psycopg.Connection) -> list[Any]:
        found = connection.execute(
            "SELECT pg_backend_pid(), current_setting('search_path'), to_regclass('pg_temp.mine'),"
            " (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid ="
            " pg_backend_pid()), (SELECT count(*) FROM pg_listening_channels()),"
            " (SELECT count(*) FROM pg_prepared_statements WHERE name NOT LIKE 'tenure %'),"
            " current_setting('my.own', true)"
        ).fetchone()
        return list(found or ())

    def soil(connection: psycopg.Connection) -> None:
        connection.execute("SET search_path = nowhere; SET my.own = 'left'; LISTEN gossip")
        connection.execute("CREATE TEMP TABLE mine (x int)")
        connection.execute("SELECT pg_advisory_lock(7)")
        connection.execute("PREPARE that AS SELECT 1")
        connection.row_factory = psycopg.rows.dict_row  # type: ignore[assignment]
        connection.prepare_threshold = 0
        connection.execute("SELECT 2")

    @scheduler.task(transactional=True)
    def leaves(connection: psycopg.Connection) -> None:
        soil(connection)

    @scheduler.task(transactional=True)
    def leaves_and_fails(connection: psycopg.Connection) -> None:
        soil(connection)
        raise ZeroDivisionError

    with scheduler:
        clean = scheduler.result(scheduler.enqueue(look), 20)
        assert clean[1:6] == ['"$user", public', None, 0, 0, 0]
        for task in (leaves, leaves_and_fails):
            ended(scheduler, scheduler.enqueue(task))
            found = scheduler.result(scheduler.enqueue(look), 20)
            assert found[:6] == clean[:6]  # on the same session
            assert not found[6]


def test_what_ends_a_transaction_is_planned_once_in_a_session(postgres_url: str) -> None:
    scheduler = a_scheduler(postgres_url, lent_connections=1)

    @scheduler.task(transactional=True)
    def look(connection: psycopg.Connection) -> list[list[Any]]:
        found = connection.execute(
            "SELECT pg_backend_pid(), name, generic_plans, custom_plans FROM pg_prepared_statements"
            " ORDER BY name"
        )
        return [list(row) for row in found.fetchall()]

    with scheduler:
        first, *others = [scheduler.result(scheduler.enqueue(look), 20) for _ in range(4)]
    assert first == []
    assert [len(found) for found in others] == [PREPARED[True]] * 3
    for times, found in enumerate(others, 1):
        for (pid, name, generic, custom), earlier in zip(found, others[0], strict=True):
            assert (pid, name, custom) == (*earlier[:2], 0)
            # Each run used its connection; and the first was checked before all is prepared.
            never = name == "tenure settings"
            assert generic == (0 if never else times - (name == "tenure check"))


def test_task_may_drop_all_prepared_statements(postgres_url: str) -> None:
    """The driver does so by itself, after it has prepared some and a table is dropped."""
    scheduler = a_scheduler(postgres_url, lent_connections=1)
    refused: list[object] = []
    scheduler.on("run.refused", refused.append)

    @scheduler.task(transactional=True)
    def bill(run: Run, connection: psycopg.Connection, number: int) -> int:
        connection.execute(insert(number))
        if number % 2:
            connection.execute("DEALLOCATE ALL")
        if number == 43:
            connection.execute("PREPARE that AS SELECT 1")
        [row] = connection.execute("SELECT pg_backend_pid()").fetchall()
        return int(row[0])

    with scheduler:
        sessions = [
            scheduler.result(scheduler.enqueue(bill, kwargs={"number": number}), 20)
            for number in range(40, 48)
        ]
        states = {run.state for run in scheduler.runs(task=bill)}
    assert states == {"succeeded"}
    assert len(set(sessions)) == 1
    assert refused == []
    assert [number for number in orders(postgres_url) if 40 <= number < 48] == [*range(40, 48)]


async def test_coroutine_may_drop_all_prepared_statements(postgres_url: str) -> None:
    scheduler = AsyncScheduler(postgres_url, namespace=f"t{next(_numbers)}")

    @scheduler.task(transactional=True)
    async def bill(connection: psycopg.AsyncConnection, number: int) -> None:
        await connection.execute(insert(number))
        await connection.execute("DEALLOCATE ALL")

    async with scheduler:
        for number in range(80, 83):
            run = await scheduler.enqueue(bill, kwargs={"number": number})
            await scheduler.result(run, timeout=20)
    assert [number for number in orders(postgres_url) if 80 <= number < 83] == [80, 81, 82]


def test_transaction_begins_when_the_connection_is_first_used(postgres_url: str) -> None:
    scheduler = a_scheduler(postgres_url, lent_connections=1)
    kept: list[psycopg.Connection] = []

    def open_ones() -> int:
        with eyes(postgres_url) as other:
            [row] = other.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tenure task'"
                " AND xact_start IS NOT NULL"
            ).fetchall()
        return int(row[0])

    @scheduler.task(transactional=True)
    def bill(connection: psycopg.Connection, uses: str) -> list[Any]:
        kept.append(connection)
        before = open_ones()
        if uses == "it":
            connection.execute(insert(140 + len(kept)))
        elif uses == "its status":
            assert connection.info.transaction_status == TransactionStatus.INTRANS
        elif uses == "its line":
            connection.pgconn.exec_(insert(150).encode())
        elif uses == "it and fails":
            raise ZeroDivisionError
        return [before, open_ones()]

    def outcome(uses: str) -> Any:
        run = scheduler.enqueue(bill, kwargs={"uses": uses})
        return scheduler.result(run, 20) if uses != "it and fails" else ended(scheduler, run).state

    with scheduler:
        assert outcome("nothing") == [0, 0]
        assert outcome("it") == [0, 1]
        assert outcome("nothing") == [0, 0]
        assert outcome("it and fails") == "failed"
        assert outcome("nothing") == [0, 0]
        for uses in ("it", "its status", "its line"):
            assert outcome(uses) == [0, 1]
        assert outcome("nothing") == [0, 0]
        for connection in kept:
            with pytest.raises(TransactionLost, match="transaction is over"):
                connection.execute(insert(160))
        assert outcome("it") == [0, 1]
    assert [n for n in orders(postgres_url) if 140 < n < 170] == [142, 146, 150, 150]


def test_run_that_used_nothing_is_refused_if_its_claim_was_lost(postgres_url: str) -> None:
    outlived = Outlived(postgres_url)
    refused: queue.Queue[Any] = queue.Queue()
    outlived.scheduler.on("run.refused", refused.put)
    outlived.scheduler.tasks._tasks.clear()

    @outlived.scheduler.task(transactional=True)
    def bill(connection: psycopg.Connection) -> None:
        if not outlived.begun.is_set():
            outlived.begun.set()
            assert outlived.go_on.wait(30)
            outlived.ended.set()

    outlived.execute(None)
    told = refused.get(timeout=60)
    assert (told.task, told.attempt, told.error) == ("bill", 1, "")


def test_thread_that_a_task_leaves_behind_does_nothing_to_the_next(postgres_url: str) -> None:
    scheduler = a_scheduler(postgres_url, lent_connections=1)
    kept: list[psycopg.Connection] = []
    refused: list[BaseException] = []
    sends, go_on = threading.Event(), threading.Event()
    wait = TimedConnection.wait

    def slowly(connection: TimedConnection, *args: Any) -> Any:
        if threading.current_thread().name == "left":
            sends.set()
            assert go_on.wait(20)
        return wait(connection, *args)

    def writes(connection: psycopg.Connection) -> None:
        try:
            connection.execute(insert(171))
        except Exception as error:
            refused.append(error)

    @scheduler.task(transactional=True)
    def leaves(connection: psycopg.Connection) -> None:
        connection.execute("SELECT 1")
        kept.append(connection)
        threading.Thread(target=writes, args=[connection], name="left").start()
        assert sends.wait(20)

    @scheduler.task(transactional=True)
    def bill(connection: psycopg.Connection) -> None:
        connection.execute(insert(172))
        if not go_on.is_set():
            go_on.set()
            until(lambda: bool(refused), "its error")
        kept[0].cancel()
        kept[0].cancel_safe()
        connection.execute("SELECT pg_sleep(0.3)")

    with pytest.MonkeyPatch.context() as patched, scheduler:
        patched.setattr(TimedConnection, "wait", slowly)
        for task in (leaves, bill, bill):
            after = ended(scheduler, scheduler.enqueue(task))
            assert (after.state, after.error) == ("succeeded", None)
    assert kept[0].closed
    assert [n for n in orders(postgres_url) if n in (171, 172)] == [172, 172]


def test_result_is_recorded_with_the_role_of_the_session(postgres_url: str) -> None:
    with eyes(postgres_url) as other:
        other.execute("CREATE ROLE clerk; GRANT INSERT ON orders TO clerk")
    scheduler = a_scheduler(postgres_url, lent_connections=1)

    @scheduler.task(transactional=True)
    def bill(connection: psycopg.Connection, how: str) -> str:
        [[role]] = connection.execute("SELECT current_user").fetchall()
        connection.execute(f"SET {how} ROLE clerk")
        connection.execute(insert(175))
        return str(role)

    with scheduler:
        roles = {
            scheduler.result(scheduler.enqueue(bill, kwargs={"how": how}), 20)
            for how in ("LOCAL", "SESSION") * 2
        }
    with eyes(postgres_url) as other:
        other.execute("DROP OWNED BY clerk; DROP ROLE clerk")
    assert len(roles) == 1
    assert orders(postgres_url).count(175) == 4
