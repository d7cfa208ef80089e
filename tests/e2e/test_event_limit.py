"""How much data an event may have: the same limit wherever an event is given."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenure import AsyncScheduler, Event, InvalidEvent, NewSchedule, Run, Scheduler, every
from tenure.settings import EVENT_LIMIT, EVENT_MOST, Settings
from tenure.testing import recording
from tests.e2e.command import at_hand
from tests.e2e.http_api import Api, application
from tests.e2e.test_joining import eyes
from tests.e2e.test_joining import postgres_url as postgres_url  # noqa: PLC0414 - a fixture
from tests.e2e.test_joining import sqlite_url as sqlite_url  # noqa: PLC0414 - a fixture

LIMIT = 100
FITS, TOO_LARGE = (Event("ledger", "Said", "x" * (LIMIT - quotes)) for quotes in (2, 1))
SAYS = "data is 101 bytes of JSON; the limit is 100"
APP = f"""
from tenure import Scheduler
from tenure.settings import Settings

scheduler = Scheduler("sqlite:///jobs.db", settings=Settings(event_limit={LIMIT}))
"""


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Scheduler]:
    made = Scheduler(f"sqlite:///{tmp_path / 'jobs.db'}", settings=Settings(event_limit=LIMIT))
    yield made
    made.stop()


def test_scheduler_refuses_more_wherever_it_takes_an_event(scheduler: Scheduler) -> None:
    daily = every(days=1)
    scheduler.emit(FITS)
    scheduler.add("a", daily, emit=FITS)
    ways = (
        lambda: scheduler.emit(TOO_LARGE),
        lambda: scheduler.add("b", daily, emit=TOO_LARGE),
        lambda: scheduler.put("b", daily, emit=TOO_LARGE),
        lambda: scheduler.put("a", daily, emit=TOO_LARGE),
        lambda: scheduler.update("a", emit=TOO_LARGE),
        lambda: scheduler.add_many([NewSchedule("b", daily, emit=TOO_LARGE)]),
    )
    for way in ways:
        with pytest.raises(InvalidEvent, match=SAYS):
            way()
    assert [schedule.name for schedule in scheduler.schedules()] == ["a"]
    assert scheduler.schedules()[0].version == 1


async def test_async_scheduler_refuses_more(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    scheduler = AsyncScheduler(url, settings=Settings(event_limit=LIMIT))
    await scheduler.emit(FITS)
    with pytest.raises(InvalidEvent, match=SAYS):
        await scheduler.emit(TOO_LARGE)
    await scheduler.stop()


def test_task_is_told_when_it_emits_more() -> None:
    scheduler = Scheduler("memory://", settings=Settings(event_limit=LIMIT))
    told: list[str] = []

    @scheduler.task
    def bill(run: Run) -> None:
        run.emit(FITS)
        try:
            run.emit(TOO_LARGE)
        except InvalidEvent as error:
            told.append(str(error))

    with recording(scheduler) as recorded:
        scheduler.enqueue(bill)
        recorded.run()
        assert [event.type for event in recorded.events] == ["Said"]
    assert [SAYS in each for each in told] == [True]


def test_command_line_has_the_limit_of_the_code_at_hand(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    assert at_hand(tmp_path, "migrate", "--url", "sqlite:///jobs.db").code == 0
    event = {"topic": "ledger", "type": "Said", "data": TOO_LARGE.data}
    add = ("schedules", "add", "x", "--every", "5m", "--emit", json.dumps(event))
    refused = at_hand(tmp_path, *add, "--app", "app:scheduler")
    assert (refused.code, SAYS in refused.err) == (2, True), refused
    assert at_hand(tmp_path, *add, "--url", "sqlite:///jobs.db").code == 0


def test_http_api_has_the_limit_of_its_scheduler(tmp_path: Path) -> None:
    url, body = f"sqlite:///{tmp_path / 'jobs.db'}", {"name": "x", "trigger": "every 5m"}
    scheduler = AsyncScheduler(url, settings=Settings(event_limit=EVENT_MOST))
    api = Api(application(scheduler, actor="ann", may_write=True))
    event = {"topic": "ledger", "type": "Said", "data": "x" * (EVENT_MOST - 2)}
    api.post("/schedules", body | {"emit": event}, 201)
    event["data"] += "x"
    told = api.refused(422, "POST", "/schedules", "invalid", json=body | {"emit": event})
    assert "data is 900,001 bytes of JSON; the limit is 900,000" in told["detail"]
    asyncio.run(scheduler.stop())


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_stores_take_the_greatest_event_that_settings_allow(
    store: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(f"{store}_url")
    scheduler = Scheduler(url, namespace="limit", settings=Settings(event_limit=EVENT_MOST))
    wide = {"topic": "t" * 200, "type": "ü" * 200, "key": "\U0001f600" * 200}
    headers = {f"h{n}": "\U0001f600" * 600 for n in range(3)}
    event = Event(**wide, data="x" * (EVENT_MOST - 2), headers=headers)
    scheduler.emit(event)
    scheduler.add("a" * 200, every(days=1), emit=event)
    scheduler.run_now("a" * 200)
    stored = scheduler.get("a" * 200).spec.event
    scheduler.stop()
    assert stored is not None
    assert len(stored.data) == EVENT_MOST


def test_sql_keeps_to_the_default(postgres_url: str) -> None:
    scheduler = Scheduler(postgres_url, settings=Settings(event_limit=EVENT_MOST))
    scheduler.schedules()  # makes the tables
    scheduler.stop()
    with eyes(postgres_url) as connection:
        emit = "SELECT tenure.emit('ledger', 'Said', to_jsonb(repeat('x', %s)))"
        connection.execute(emit, [EVENT_LIMIT - 2])
        with pytest.raises(Exception, match="the limit is 65536"):
            connection.execute(emit, [EVENT_LIMIT - 1])
