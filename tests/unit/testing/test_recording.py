"""`recording`: nothing starts, every call is recorded whatever its connection, and run by hand."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing

import pytest

from tenure import AsyncScheduler, Event, Scheduler, every
from tenure.errors import ConfigError
from tenure.testing import recording
from tenure.testing.recorder import Recording


def made(ran: list[str]) -> Scheduler:
    scheduler = Scheduler("postgresql://db.example/app")

    @scheduler.task(every(seconds=1))
    def declared() -> None:
        ran.append("declared")

    @scheduler.task
    def mail(to: str) -> str:
        ran.append(to)
        return f"sent to {to}"

    @scheduler.task(retries=3)
    def broken() -> None:
        raise ConnectionError("no mail server")

    return scheduler


def test_calls_are_recorded_with_any_connection(
    tenure_recording: Callable[..., Recording],
) -> None:
    ran: list[str] = []
    scheduler = made(ran)
    recorded = tenure_recording(scheduler)
    with closing(sqlite3.connect(":memory:")) as connection, connection, scheduler:
        assert not scheduler.running
        scheduler.add("weekly", "every week", task="mail", kwargs={"to": "a"}, connection=object())
        scheduler.put("weekly", "every day", task="mail", kwargs={"to": "b"}, connection=connection)
        scheduler.enqueue("mail", kwargs={"to": "c"}, connection=connection)
        scheduler.emit(Event("ledger", "Sold"), connection=object())
    assert [(each.name, str(each.trigger)) for each in recorded.schedules] == [
        ("weekly", "every day")
    ]
    assert [(run.task, run.kwargs) for run in recorded.runs] == [("mail", {"to": "c"})]
    assert [event.type for event in recorded.events] == ["Sold"]
    assert not ran


def test_what_was_enqueued_is_run_by_hand() -> None:
    ran: list[str] = []
    scheduler = made(ran)
    with recording(scheduler) as recorded:
        run = scheduler.enqueue("mail", kwargs={"to": "a"})
        assert recorded.run() == 1
        assert scheduler.result(run) == "sent to a"
        scheduler.enqueue("mail", kwargs={"to": "b"})
        scheduler.enqueue("mail", kwargs={"to": "later"}, delay=3600)
        assert recorded.run() == 1
        assert ran == ["a", "b"]
        assert recorded.run() == 0
        assert not scheduler.running
        assert not recorded.schedules
    assert "later" not in ran


def test_what_is_for_later_is_run_if_asked_for() -> None:
    scheduler = Scheduler("memory://")
    ran: list[str] = []
    scheduler.task(name="mail")(lambda: ran.append("mail"))
    with recording(scheduler) as recorded:
        scheduler.enqueue("mail", delay=3600)
        assert recorded.run() == 0
        assert recorded.run(later=True) == 1
    assert ran == ["mail"]


def test_what_a_task_raises_is_for_the_test() -> None:
    scheduler = made([])
    with recording(scheduler) as recorded:
        scheduler.enqueue("broken")
        with pytest.raises(ConnectionError, match="no mail server"):
            recorded.run()


def test_calls_from_an_application_on_a_thread() -> None:
    scheduler = made([])
    with recording(scheduler) as recorded:
        given = {"kwargs": {"to": "a"}}
        handler = threading.Thread(target=scheduler.enqueue, args=["mail"], kwargs=given)
        handler.start()
        handler.join()
        assert recorded.run() == 1


async def test_an_async_scheduler() -> None:
    scheduler = AsyncScheduler("postgresql://db.example/app")
    ran: list[int] = []

    @scheduler.task
    async def resize(size: int) -> None:
        await asyncio.sleep(0)
        ran.append(size)

    async with recording(scheduler) as recorded, scheduler:
        await scheduler.enqueue(resize, kwargs={"size": 7}, connection=object())
        scheduler.blocking.enqueue(resize, kwargs={"size": 8}, connection=object())
        assert recorded.run() == 2
    assert ran == [7, 8]


def test_the_scheduler_is_its_own_again() -> None:
    scheduler = Scheduler("memory://")
    scheduler.task(name="a")(lambda: None)
    with recording(scheduler), pytest.raises(ConfigError, match="in a world already"):
        recording(scheduler).__enter__()
    with recording(scheduler) as recorded:
        assert recorded.runs == []
