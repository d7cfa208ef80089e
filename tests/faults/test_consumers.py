"""Events are read exactly once and in order, whatever happens to consumers, writers and leaders."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenure import Consumer, Event, Scheduler
from tests.faults.support import until
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults

CONSUMERS, WRITERS, KILLS = 3, 3, 5


class Ledger:
    def __init__(self, url: str) -> None:
        self.url = url

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        connection: Any = (
            psycopg.connect(self.url)
            if self.url.startswith("postgresql")
            else sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=20)
        )
        try:
            cursor = connection.execute(text)
            found = [tuple(row) for row in cursor.fetchall()] if cursor.description else []
            connection.commit()
            return found
        finally:
            connection.close()

    def has_more(self, than: int) -> bool:
        return self.booked() > than

    @contextmanager
    def consumer(self) -> Iterator[subprocess.Popen[bytes]]:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.programs.reading", self.url]
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            process.wait(timeout=20)

    def booked(self) -> int:
        return int(self.rows("SELECT count(*) FROM booked")[0][0])


@pytest.fixture(params=["sqlite", "postgres"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/ledger.db"
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.create_database(f"ledger_{id(tmp_path)}")
    ledger = Ledger(url)
    # Nothing in it keeps a row from being there twice.
    place = "id INTEGER PRIMARY KEY" if request.param == "sqlite" else "id bigserial"
    ledger.rows(f"CREATE TABLE booked ({place}, key text, n bigint, number bigint)")
    return ledger


def test_consumers_that_are_killed_and_a_leader_that_changes(ledger: Ledger) -> None:
    source, enough, written = random.Random(7), threading.Event(), dict[str, int]()
    first, second = Scheduler(ledger.url), Scheduler(ledger.url)
    with ExitStack() as stack:
        for scheduler in (first, second):
            scheduler.start()
            stack.callback(scheduler.stop)
            until(lambda: first.is_leader, "the first one to lead")
        consumers = [stack.enter_context(ledger.consumer()) for _ in range(CONSUMERS)]
        writers = [
            threading.Thread(target=_write, args=(ledger.url, second, f"key {n}", enough, written))
            for n in range(WRITERS)
        ]
        for writer in writers:
            writer.start()
        try:
            for kill in range(KILLS):
                booked = ledger.booked()
                until(partial(ledger.has_more, booked), "more events", 40)
                place = source.randrange(CONSUMERS)
                consumers[place].send_signal(signal.SIGKILL)
                consumers[place] = stack.enter_context(ledger.consumer())
                if kill == KILLS // 2:
                    assert first.is_leader
                    first.stop()
                    until(lambda: second.is_leader, "the other to go on")
        finally:
            enough.set()
            for writer in writers:
                writer.join(timeout=40)
        until(lambda: ledger.booked() >= sum(written.values()), "all events", 60)
    for key, count in written.items():
        rows = ledger.rows(f"SELECT n, number FROM booked WHERE key = '{key}' ORDER BY id")
        assert [n for n, _ in rows] == list(range(count))
        numbers = [number for _, number in rows]
        assert numbers == list(range(numbers[0], numbers[0] + count))


def test_writers_of_one_key_that_commit_late_or_never(postgres: PostgresServer) -> None:
    """They share the key, and a row that each locks before it emits; consumers roll back, too. A
    transaction that has emitted stays open all the time, and holds up nobody."""
    ledger = Ledger(postgres.create_database("late_writers"))
    ledger.rows("CREATE TABLE booked (id bigserial, key text, n bigint)")
    ledger.rows("CREATE TABLE account (key text PRIMARY KEY, n bigint)")
    ledger.rows("INSERT INTO account VALUES ('a', 0), ('b', 0)")
    scheduler = Scheduler(ledger.url)
    with ExitStack() as stack:
        stack.enter_context(scheduler)
        foreign = stack.enter_context(psycopg.connect(ledger.url))
        scheduler.emit(Event("ledger", "Foreign", 0, key="a"), connection=foreign)
        writers = [
            threading.Thread(target=_count_up, args=(ledger.url, scheduler, random.Random(n)))
            for n in range(4)
        ]
        consumers = [
            stack.enter_context(scheduler.consumer("ledger", group="books", limit=7))
            for _ in range(2)
        ]
        readers = [
            threading.Thread(target=_book, args=(consumer, random.Random(n)))
            for n, consumer in enumerate(consumers)
        ]
        for reader in readers:
            reader.start()
            stack.callback(reader.join, timeout=60)
        for consumer in consumers:
            stack.callback(consumer.stop)
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(timeout=60)
        counts = dict(ledger.rows("SELECT key, n FROM account"))
        until(lambda: ledger.booked() >= sum(counts.values()), "all but the one that is open", 60)
        foreign.commit()
        until(lambda: ledger.booked() > sum(counts.values()), "that one, too")
    for key, count in counts.items():
        rows = ledger.rows(f"SELECT n FROM booked WHERE key = '{key}' ORDER BY id")
        last = [0] if key == "a" else []
        assert [n for (n,) in rows] == [*range(1, count + 1), *last], key


def _count_up(url: str, scheduler: Scheduler, source: random.Random) -> None:
    with psycopg.connect(url) as connection:
        for _ in range(40):
            key = source.choice("ab")
            found = connection.execute(
                "UPDATE account SET n = n + 1 WHERE key = %s RETURNING n", [key]
            ).fetchone()
            assert found is not None
            scheduler.emit(Event("ledger", "Counted", found[0], key=key), connection=connection)
            if source.random() < 0.3:
                threading.Event().wait(0.02)  # a late commit is the point
            (connection.rollback if source.random() < 0.2 else connection.commit)()


def _book(consumer: Consumer, source: random.Random) -> None:
    for batch in consumer:
        with suppress(_Unlucky), batch.transaction() as connection:
            for event in batch:
                row = [event.key, int(event.data)]
                connection.execute("INSERT INTO booked (key, n) VALUES (%s, %s)", row)
            if source.random() < 0.2:
                raise _Unlucky


class _Unlucky(Exception):
    """This batch is rolled back."""


def _write(
    url: str, scheduler: Scheduler, key: str, enough: threading.Event, written: dict[str, int]
) -> None:
    """Every fourth in a transaction that commits late, while the other writers go on."""
    n = 0
    while not enough.wait(0.01):
        event = Event("ledger", "Booked", n, key=key)
        if url.startswith("postgresql") and n % 4 == 0:
            with psycopg.connect(url) as connection:
                scheduler.emit(event, connection=connection)
                enough.wait(0.02)  # a late commit is the point
        else:
            scheduler.emit(event)
        n += 1
        written[key] = n
