"""Wake-ups on a real PostgreSQL: a process hears of what it waits for, and of nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from tenure.backends.base import RUNS, SCHEDULES, lease_topic
from tenure.backends.postgres import PostgresBackend
from tests.support.servers import PostgresServer

PATIENCE = 60.0


@pytest.fixture
async def backend(url: str) -> AsyncIterator[PostgresBackend]:
    backend = PostgresBackend(url)
    await backend.open()
    try:
        yield backend
    finally:
        await backend.close()


class Heard:
    """How often each topic was told."""

    def __init__(self, backend: PostgresBackend, *topics: str) -> None:
        self.times = dict.fromkeys(topics, 0)
        self.stops = {t: backend.wakeups.subscribe(t, lambda t=t: self._hear(t)) for t in topics}  # type: ignore[misc]
        self._news = asyncio.Event()

    def _hear(self, topic: str) -> None:
        self.times[topic] += 1
        self._news.set()

    async def until(self, **times: int) -> None:
        """Each of these has been told so often, or more."""
        async with asyncio.timeout(PATIENCE):
            while any(self.times[_full(topic)] < least for topic, least in times.items()):
                self._news.clear()
                await self._news.wait()


def _full(name: str) -> str:
    return name if name in (RUNS, SCHEDULES) else lease_topic(name)


async def test_what_is_waited_for_is_heard_and_nothing_else(
    backend: PostgresBackend, url: str
) -> None:
    heard = Heard(backend, lease_topic("job"), lease_topic("other"), SCHEDULES)
    await heard.until(job=1, other=1, schedules=1)  # listening: look, whatever was said before
    with psycopg.connect(url, autocommit=True) as line:
        _tell(line, backend, lease_topic("job"))
        await heard.until(job=2)
        _tell(line, backend, lease_topic("nobody's"))
        _tell(line, backend, SCHEDULES)
        await heard.until(schedules=2)
        assert heard.times == {lease_topic("job"): 2, lease_topic("other"): 1, SCHEDULES: 2}

        heard.stops[lease_topic("job")]()
        late = Heard(backend, lease_topic("late"))
        await late.until(late=1)
        _tell(line, backend, lease_topic("job"))
        _tell(line, backend, lease_topic("late"))
        await late.until(late=2)
        assert heard.times[lease_topic("job")] == 2


async def test_a_connection_that_is_made_anew_listens_to_all_of_it(
    backend: PostgresBackend, url: str
) -> None:
    heard = Heard(backend, lease_topic("job"))
    await heard.until(job=1)
    before, _ = backend.wakeups.session
    with psycopg.connect(url, autocommit=True) as line:
        line.execute("SELECT pg_terminate_backend(%s)", (before,))
        await heard.until(job=2)
        assert backend.wakeups.session[0] not in (None, before)
        _tell(line, backend, lease_topic("job"))
        await heard.until(job=3)


async def test_bytes_that_are_no_text_do_not_end_the_listening(postgres: PostgresServer) -> None:
    no_encoding = "ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
    url = postgres.create_database("wakeups", no_encoding)
    backend = PostgresBackend(url)
    await backend.open()
    try:
        heard = Heard(backend, RUNS)
        await heard.until(runs=1)
        session = backend.wakeups.session
        with psycopg.connect(url, autocommit=True) as line:
            for times in (2, 4, 6):
                line.execute(f"NOTIFY {backend.wakeups.channel}, E'\\xff'")
                await heard.until(runs=times)  # it may have been for us
                _tell(line, backend, RUNS)
                await heard.until(runs=times + 1)
        assert backend.wakeups.session == session
    finally:
        await backend.close()


def _tell(line: psycopg.Connection, backend: PostgresBackend, topic: str) -> None:
    wakeups = backend.wakeups
    channel = wakeups.channel if topic == RUNS else wakeups.channel_of(topic)
    line.execute("SELECT pg_notify(%s, %s)", (channel, topic))
