"""Emitting and consuming: with a node, in the user's transactions, through both façades."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from tenure import (
    AsyncScheduler,
    Event,
    InvalidEvent,
    InvalidSchedule,
    LoggedEvent,
    NewSchedule,
    Run,
    Scheduler,
    every,
)
from tenure.scheduler import group_membership
from tests.e2e.command import until
from tests.e2e.test_joining import eyes
from tests.e2e.test_joining import postgres_url as postgres_url  # noqa: PLC0414 - a fixture
from tests.e2e.test_joining import sqlite_url as sqlite_url  # noqa: PLC0414 - a fixture

_numbers = count()
ENDED = Event("ledger", "MonthEnded", {"month": 1}, key="books", headers={"by": "tests"})


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


@pytest.fixture
def scheduler(url: str) -> Iterator[Scheduler]:
    scheduler = Scheduler(url, namespace=f"e{next(_numbers)}")
    yield scheduler
    scheduler.stop()


def read(scheduler: Scheduler, wait: float = 10.0, count: int = 1) -> list[LoggedEvent]:
    """So many events of the topic, as a group of its own reads them."""
    seen: list[LoggedEvent] = []
    with scheduler.consumer("ledger", group=f"g{next(_numbers)}", wait=wait) as consumer:
        for batch in consumer:
            with batch.transaction():
                seen += batch
            if len(seen) >= count:
                break
    return seen


def now() -> Any:
    """An `at` that is near would be over by the time that a busy machine has added it."""
    return every(hours=1, immediately=True)


def test_schedule_emits_when_it_is_due(scheduler: Scheduler) -> None:
    with scheduler:
        added = scheduler.add("month-end", now(), emit=ENDED)
        [event] = read(scheduler)
    assert (event.topic, event.type, event.key) == ("ledger", "MonthEnded", "books")
    assert (event.data, event.headers) == ('{"month":1}', {"by": "tests"})
    assert (event.subject, event.time) == ("month-end", added.next_nominal)
    [occurrence] = scheduler.occurrences("month-end")
    assert (occurrence.state, occurrence.run_id) == ("fired", None)


def test_event_is_emitted_by_itself_and_once_by_its_id(scheduler: Scheduler) -> None:
    with scheduler:
        assert scheduler.emit(ENDED, id="mine") == "mine"
        scheduler.emit(Event("ledger", "Other"), id="mine")
        other = scheduler.emit(Event("ledger", "Other"))
        found = {event.id: event.type for event in read(scheduler, count=2)}
    assert found == {"mine": "MonthEnded", other: "Other"}


def test_event_in_a_transaction_is_there_if_it_commits(scheduler: Scheduler, url: str) -> None:
    with scheduler, eyes(url) as connection:
        for kept in (False, True):
            connection.execute("BEGIN")
            scheduler.emit(Event("ledger", f"{kept}"), connection=connection)
            connection.execute("COMMIT" if kept else "ROLLBACK")
        [event] = read(scheduler)
    assert event.type == "True"


def test_task_emits_if_it_succeeds(scheduler: Scheduler) -> None:
    attempts = count()

    @scheduler.task(retries=1)
    def bill(run: Run) -> None:
        attempt = next(attempts)
        run.emit(Event("ledger", "Billed", attempt))
        run.emit(Event("ledger", "Booked", attempt))
        if not attempt:
            raise RuntimeError("not yet")

    with scheduler:
        run = scheduler.enqueue(bill)
        events = read(scheduler, count=2, wait=20)
    assert {(event.type, event.data) for event in events} == {("Billed", "1"), ("Booked", "1")}
    assert {event.subject for event in events} == {run.task}


def test_transactional_task_emits_with_its_transaction(scheduler: Scheduler, url: str) -> None:
    attempts = count()

    @scheduler.task(retries=1, transactional=True)
    def bill(run: Run, connection: Any) -> None:
        attempt = next(attempts)
        connection.execute(f"INSERT INTO orders VALUES ({attempt})")
        run.emit(Event("ledger", "Billed", attempt))
        if not attempt:
            raise RuntimeError("not yet")

    with scheduler:
        scheduler.enqueue(bill)
        [event] = read(scheduler, wait=20)
    assert (event.type, event.data, event.subject) == ("Billed", "1", "bill")


def test_group_moves_on_with_what_the_reader_writes(scheduler: Scheduler, url: str) -> None:
    with eyes(url) as connection:
        connection.execute("DELETE FROM orders")
    with scheduler:
        for n in range(5):
            scheduler.emit(Event("ledger", "Said", n, key="k"))
        failures, seen = [True], list[str]()
        with scheduler.consumer("ledger", group="billing", limit=2, wait=10) as consumer:
            while len(seen) < 5:
                try:
                    for batch in consumer:
                        with batch.transaction() as connection:
                            for event in batch:
                                connection.execute(f"INSERT INTO orders VALUES ({event.data})")
                            if failures:
                                failures.pop()
                                raise RuntimeError("cut off before the commit")
                        seen += [event.data for event in batch]
                        if len(seen) == 5:
                            break
                except RuntimeError:
                    pass
    assert seen == ["0", "1", "2", "3", "4"]
    with eyes(url) as connection:
        rows = connection.execute("SELECT * FROM orders").fetchall()
    assert sorted(row[0] for row in rows) == [0, 1, 2, 3, 4]


def test_consumer_takes_on_a_connection_of_the_users(scheduler: Scheduler, url: str) -> None:
    with scheduler, scheduler.consumer("ledger", group="billing") as consumer:
        scheduler.emit(ENDED)
        until(lambda: _taken(consumer, url, "ROLLBACK"), "the event has a position")
        assert len(_taken(consumer, url, "COMMIT")) == 1
        assert _taken(consumer, url, "COMMIT") == []


def _taken(consumer: Any, url: str, end: str) -> list[LoggedEvent]:
    with eyes(url) as connection:
        connection.execute("BEGIN")
        taken: list[LoggedEvent] = consumer.take(connection)
        connection.execute(end)
        return taken


@pytest.mark.parametrize("alone", [False, True], ids=["on a node", "alone"])
def test_consumer_that_waits_is_woken_and_stopped(
    scheduler: Scheduler, url: str, alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that has no node: it does not depend on looking now and then."""
    monkeypatch.setattr(group_membership, "LOOK_EVERY", 600.0)
    other = Scheduler(url, namespace=scheduler.namespace) if alone else scheduler
    seen, stopped = threading.Event(), threading.Event()
    with scheduler, other.consumer("ledger", group="billing") as consumer:

        def consume() -> None:
            for batch in consumer:
                with batch.transaction():
                    seen.set()
            stopped.set()

        thread = threading.Thread(target=consume)
        thread.start()
        for _ in range(3):
            scheduler.emit(ENDED)
            assert seen.wait(60)
            seen.clear()
        consumer.stop()
        assert stopped.wait(60)
        thread.join()
    if alone:
        other.stop()


async def test_async_scheduler_emits_and_consumes(url: str) -> None:
    async with AsyncScheduler(url, namespace=f"e{next(_numbers)}") as scheduler:
        await scheduler.emit(ENDED)
        await scheduler.add("month-end", now(), emit=ENDED)
        seen: list[LoggedEvent] = []
        async with scheduler.consumer("ledger", group="billing", wait=20) as consumer:
            async for batch in consumer:
                async with batch.transaction() as connection:
                    assert connection is not None
                    seen += batch
                if len(seen) == 2:
                    break
    assert [event.subject for event in seen] == [None, "month-end"]
    assert seen[1].key_number == seen[0].key_number + 1


def test_what_is_emitted_can_be_changed(scheduler: Scheduler) -> None:
    scheduler.add("month-end", every(days=1), emit=ENDED, catch_up="all")
    changed = scheduler.update("month-end", emit=Event("audit", "Ended"), tenant="acme")
    assert changed.spec.event is not None
    assert (changed.spec.event.topic, changed.spec.tenant) == ("audit", "acme")
    assert scheduler.get("month-end").spec == changed.spec
    assert scheduler.update("month-end", trigger=every(days=2)).spec.event == changed.spec.event
    assert scheduler.pause("month-end").spec.event == changed.spec.event
    assert scheduler.run_now("month-end") is None


def test_what_cannot_emit_is_refused(scheduler: Scheduler) -> None:
    @scheduler.task
    def bill() -> None: ...

    scheduler.add("runs", every(days=1), task=bill)
    scheduler.add("emits", every(days=1), emit=ENDED)
    for call, words in (
        (lambda: scheduler.add("a", every(days=1)), "neither a task to run nor an event"),
        (lambda: scheduler.add("a", every(days=1), task=bill, emit=ENDED), "either emit=… or task"),
        (lambda: scheduler.add("a", every(days=1), emit=ENDED, retries=1), "retries is about runs"),
        (lambda: scheduler.update("runs", emit=ENDED), "cannot emit instead"),
        (lambda: scheduler.update("emits", task=bill), "either emit=… or task"),
        (lambda: scheduler.update("emits", lock="a"), "lock is about runs"),
        (lambda: scheduler.add_many([{"name": "a", "trigger": every(days=1)}]), "no 'task'"),
    ):
        with pytest.raises(InvalidSchedule, match=words):
            call()
    for wrong in (Event("a b", "t"), Event("ledger", "t", object())):
        with pytest.raises(InvalidEvent):
            scheduler.add_many([NewSchedule("a", every(days=1), emit=wrong)])
        with pytest.raises(InvalidEvent):
            scheduler.emit(wrong)
    with pytest.raises(InvalidEvent, match="without a slash"):
        scheduler.emit(ENDED, id="1/planned/2")
    assert [schedule.name for schedule in scheduler.schedules()] == ["emits", "runs"]
