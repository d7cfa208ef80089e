"""`tenure.enqueue`: a task run once by plain SQL, in the caller's own transaction."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from tenure import Scheduler, Settings
from tests.e2e.command import until
from tests.support.servers import PostgresServer


def pack(order: str = "none") -> None: ...


@pytest.fixture(scope="module")
def url(postgres: PostgresServer) -> str:
    return postgres.create_database("sql_enqueue")


@pytest.fixture
def scheduler(url: str) -> Iterator[Scheduler]:
    scheduler = Scheduler(url, settings=Settings(idle_poll=600))
    scheduler.task(pack)
    scheduler.schedules()
    yield scheduler
    scheduler.stop()


@pytest.fixture
def line(url: str, scheduler: Scheduler) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(url, row_factory=dict_row) as line:
        line.execute("TRUNCATE tenure.run")
        line.commit()
        yield line
        line.rollback()


def enqueue(line: psycopg.Connection[Any], arguments: str) -> int:
    row = line.execute(f"SELECT tenure.enqueue({arguments}) AS id".encode()).fetchone()
    assert row is not None
    answer: int = row["id"]
    return answer


def test_run_is_executed_at_once_when_it_is_committed(
    line: psycopg.Connection[Any], scheduler: Scheduler
) -> None:
    scheduler.start()
    until(lambda: scheduler.is_leader, "a leader")
    enqueue(line, "'pack', '{\"order\": \"never\"}'")
    line.rollback()
    run = enqueue(line, "'pack', '{\"order\": \"7\"}', retries => 2, timeout => 1.5, tenant => 't'")
    line.commit()
    until(lambda: scheduler.runs(state="succeeded"), "the run")
    [done] = scheduler.runs()
    assert (done.id, done.kwargs, done.kind) == (run, {"order": "7"}, "enqueued")
    assert (done.schedule, done.tenant, done.retries, done.timeout) == (None, "t", 2, 1.5)


def test_moment_and_delay(line: psycopg.Connection[Any], scheduler: Scheduler) -> None:
    enqueue(line, "'pack', at => '2030-01-01T00:00Z', lock => 'x', priority => 3")
    enqueue(line, "'pack', at => '2020-01-01T00:00Z'")
    enqueue(line, "'pack', delay => '90 seconds', on_crash => 'abandon'")
    line.commit()
    delayed, late, later = scheduler.runs()
    assert (later.due.year, later.lock, later.priority) == (2030, "x", 3)
    assert (late.nominal.year, late.due) == (2020, late.created_at)
    assert delayed.due == delayed.created_at + timedelta(seconds=90)
    assert delayed.on_crash == "abandon"


def test_same_key_gives_the_same_run(line: psycopg.Connection[Any], scheduler: Scheduler) -> None:
    run = enqueue(line, "'pack', key => 'k'")
    assert enqueue(line, "'pack', key => 'k', priority => 9") == run
    assert enqueue(line, "'other', key => 'k'") != run
    line.commit()
    assert scheduler.enqueue(pack, key="k").id == run
    assert len(scheduler.runs()) == 2


@pytest.mark.parametrize("committed", [True, False])
def test_key_of_an_open_transaction_is_waited_for(
    line: psycopg.Connection[Any], scheduler: Scheduler, url: str, committed: bool
) -> None:
    run = enqueue(line, "'pack', key => 'k'")
    with (
        psycopg.connect(url, row_factory=dict_row) as other,
        ThreadPoolExecutor() as pool,
        psycopg.connect(url, autocommit=True) as watch,
    ):
        answer = pool.submit(enqueue, other, "'pack', key => 'k'")
        asked = b"SELECT wait_event_type FROM pg_stat_activity WHERE pid = %s"
        pid = (other.info.backend_pid,)
        until(lambda: watch.execute(asked, pid).fetchone() == ("Lock",), "that it waits")
        (line.commit if committed else line.rollback)()
        assert (answer.result(timeout=30) == run) is committed
        other.commit()
    assert len(scheduler.runs()) == 1


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("''", "a task's name is 1 to 200 printable"),
        ("NULL", "a task's name is 1 to 200 printable"),
        ("E'a\\nb'", "a task's name is 1 to 200 printable"),
        ("'pack', '[1]'", "kwargs: give a JSON object"),
        ("'pack', NULL", "kwargs: give a JSON object"),
        ("'pack', jsonb_build_object('a', repeat('x', 262136))", "262145 bytes of JSON; the limit"),
        ("'pack', at => now(), delay => '1 s'", "both given"),
        ("'pack', at => 'infinity'", "at: beyond the calendar"),
        ("'pack', at => '10000-01-01'", "at: beyond the calendar"),
        ("'pack', delay => '-1 s'", "delay: not negative"),
        ("'pack', delay => '101 years'", "delay: .* at most 100 years"),
        ("'pack', key => ''", "key: 1 to 200"),
        ("'pack', key => repeat('k', 201)", "key: 1 to 200"),
        ("'pack', key => 'on_failure:1:1'", "key: keys that begin with on_failure: are reserved"),
        ("'pack', tenant => ''", "tenant: its name is"),
        ("'pack', namespace => NULL", "namespace: a name of 1 to 100"),
        ("'pack', lock => 'schedule:1'", "lock: keys that begin with schedule:"),
        ("'pack', lock => 'user:{user}'", "lock: a plain key"),
        ("'pack', lock => repeat('k', 501)", "lock: a key of 1 to 500"),
        ("'pack', priority => NULL", "priority: a number"),
        ("'pack', timeout => 'NaN'", "timeout: more than 0"),
        ("'pack', retries => -1", "retries: not negative"),
        ("'pack', on_crash => 'again'", "on_crash: rerun or abandon"),
    ],
)
def test_wrong_arguments(line: psycopg.Connection[Any], arguments: str, why: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=why):
        enqueue(line, arguments)
    line.rollback()
