"""A hundred triggers that take long to read and to plan, and one of every second beside them.

They come as rows and through SQL, where nobody reads them before the leader does.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest

from tenure import Run, Scheduler, every
from tenure.backends.sqlite import SQLiteBackend
from tenure.facts import Fact, ScheduleSetAside, TookOffice
from tenure.model import Change, ScheduleSpec
from tests.faults.support import until
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults

TTL = 10.0
LONGEST = timedelta(seconds=5)
"""Between two firings, on a busy machine; one that waited for the others would wait for minutes."""
MANY = 100
_YEAR = datetime(2026, 1, 1)  # noqa: DTZ001


def _texts() -> Iterator[str]:
    """All are legal, no two alike; together they took minutes to read and to plan."""
    for number in range(MANY // 5):
        start = f"start=2026-01-01T{number:02}:00"
        yield f"rrule FREQ=SECONDLY;COUNT=100000 {start}"
        yield f"rrule FREQ=WEEKLY;COUNT=100000 {start}"
        yield f"rrule FREQ=SECONDLY;INTERVAL=86401;BYMINUTE=59;BYSECOND=59;COUNT=100000 {start}"
        yield f"cron * * * * * * {start} except_dates={_seconds(number)}"
        lines = (f"EXDATE;TZID=Europe/Berlin:{day:%Y%m%dT%H%M%S}" for day in _days(number))
        yield f"rrule DTSTART;TZID=Europe/Berlin:20260101T0000{number:02} RRULE:FREQ=DAILY " + (
            " ".join(lines)
        )


def _seconds(hour: int) -> str:
    begin = _YEAR + timedelta(hours=hour)
    return ",".join((begin + timedelta(seconds=n)).isoformat() for n in range(1_500))


def _days(second: int) -> Iterator[datetime]:
    return (_YEAR + timedelta(days=n, seconds=second) for n in range(1_500))


@dataclass(frozen=True, slots=True)
class Store:
    """Where the schedules are, and somebody who adds and counts them past Tenure's code."""

    url: str
    add: Callable[[list[str]], None]
    unread: Callable[[], int]


def _unread(schedules: str) -> str:
    """Planning replaces a line of text with the JSON of its trigger, or sets it aside."""
    return f"""SELECT count(*) FROM {schedules} WHERE active AND "trigger" NOT LIKE '{{%'"""


@contextmanager
def _sqlite(request: pytest.FixtureRequest) -> Iterator[Store]:
    folder: Path = request.getfixturevalue("tmp_path")

    async def add(texts: list[str]) -> None:
        backend = SQLiteBackend(str(folder / "jobs.db"))
        await backend.open()
        now = await backend.now()
        specs = [ScheduleSpec(f"dear {n}", text, "nobody") for n, text in enumerate(texts)]
        await backend.schedules.change([Change(spec, None, now) for spec in specs])
        await backend.close()

    def unread() -> int:
        with closing(sqlite3.connect(folder / "jobs.db")) as eyes:
            [(number,)] = eyes.execute(_unread("tenure_schedule_status"))
            return int(number)

    yield Store(f"sqlite:///{folder / 'jobs.db'}", lambda texts: asyncio.run(add(texts)), unread)


@contextmanager
def _postgres(request: pytest.FixtureRequest) -> Iterator[Store]:
    server: PostgresServer = request.getfixturevalue("postgres")
    url = server.create_database("dear")

    def add(texts: list[str]) -> None:
        with psycopg.connect(url) as connection:
            for number, text in enumerate(texts):
                connection.execute(
                    "SELECT tenure.add_schedule(%s, %s, 'nobody')", (f"dear {number}", text)
                )

    with psycopg.connect(url, autocommit=True) as eyes:
        number = _unread("tenure.schedule_status")
        yield Store(url, add, lambda: eyes.execute(number).fetchall()[0][0])


Open = Callable[[pytest.FixtureRequest], AbstractContextManager[Store]]


@pytest.mark.parametrize("store", [_sqlite, _postgres])
def test_the_others_fire_on_time_and_leadership_stays(
    store: Open, request: pytest.FixtureRequest
) -> None:
    told: list[Fact] = []
    with store(request) as at:
        scheduler = Scheduler(at.url, ttl=TTL)
        scheduler.on("*", told.append)
        fired: list[datetime] = []

        @scheduler.task(every(seconds=1), name="steady", overlap="allow")
        def steady(run: Run) -> None:
            fired.append(run.nominal)

        with scheduler:
            until(lambda: fired, "the first one")
            at.add(list(_texts()))
            until(lambda: at.unread() == 0, "all are planned or set aside", 120)
            after = len(fired)
            until(lambda: len(fired) > after + 1, "two more")
    # One that is late by a second gives way to the next, and is missing here.
    assert max(later - earlier for earlier, later in pairwise(sorted(fired))) <= LONGEST
    assert [fact.name for fact in told if fact.name.startswith("lease.lost")] == []
    assert len([fact for fact in told if isinstance(fact, TookOffice)]) == 1
    assert not [fact for fact in told if isinstance(fact, ScheduleSetAside)]
