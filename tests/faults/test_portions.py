"""A store on which each row takes its time: what is due does not fit into one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tenure import Scheduler, every
from tenure.backends.base import Backend
from tenure.backends.postgres import PostgresBackend
from tenure.facts import Fact
from tenure.model import Overlap
from tenure.testing.contract.harness import adding
from tenure.triggers import dump
from tests.faults.support import until
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults

TTL = 3.0  # a transaction has 0.9 s
MANY = 300
_SLOW = """
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.pg_sleep(CASE NEW.schedule WHEN 'never' THEN 60 ELSE 0.01 END);
    RETURN NEW;
END $$;
CREATE TRIGGER slow BEFORE INSERT ON tenure.run FOR EACH ROW EXECUTE FUNCTION slow();
"""


async def fill(backend: Backend, *names: str) -> None:
    """With schedules that are due, and then for a day not again."""
    await backend.open()
    now = await backend.now()
    trigger = dump(every(days=1).anchored(now))
    options: dict[str, Any] = {"trigger": trigger, "task": "nobody", "overlap": Overlap.ALLOW}
    await backend.schedules.change([adding(name, now, **options) for name in names])
    await backend.close()


@contextmanager
def leading(url: str) -> Iterator[list[Fact]]:
    told: list[Fact] = []
    scheduler = Scheduler(url, ttl=TTL)
    scheduler.on("*", told.append)
    scheduler.start()
    try:
        yield told
    finally:
        scheduler.stop()


def test_all_are_fired_and_the_one_that_never_fits_is_put_off(postgres: PostgresServer) -> None:
    url = postgres.create_database("slow")
    names = [f"s{number:03}" for number in range(MANY)]
    asyncio.run(fill(PostgresBackend(url), *names, "never"))
    with psycopg.connect(url, autocommit=True) as eyes:
        eyes.execute(_SLOW)
        with leading(url) as told:
            fired = "SELECT count(*) FROM tenure.run"
            until(lambda: eyes.execute(fired).fetchone() == (MANY,), "the others are fired", 40)
            why = "SELECT reason FROM tenure.why_not WHERE schedule = 'never'"
            reason = until(lambda: _put_off(eyes.execute(why).fetchone()), "it is put off", 40)
        assert "timeout" in reason
        assert [fact.name for fact in told].count("schedule.put_off") == 1
        once = "SELECT count(DISTINCT schedule_uid), count(*) FROM tenure.occurrence"
        assert eyes.execute(once).fetchone() == (MANY, MANY)


def _put_off(row: Any) -> str | None:
    return row[0] if row and row[0].startswith("put off: its firing failed") else None
