"""Firings on PostgreSQL that meet other transactions, and that fail half-way."""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from itertools import count

import psycopg
import pytest
from psycopg.waiting import Ready, Wait

from tenure.backends.postgres import PostgresBackend, schedules
from tenure.backends.postgres.connections import connection
from tenure.errors import StoreError
from tenure.model import Fault, Fence, Fired, Firing, OccurrenceState, Planned, RunState, Schedule
from tenure.testing.contract.harness import adding, firing

FENCE = Fence("leader", 1, "ann")
AHEAD = timedelta(seconds=4)


@pytest.fixture
async def backend(url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PostgresBackend]:
    monkeypatch.setattr(schedules, "LONGEST_WAIT", 5.0)  # so that a slow machine is in time, too
    backend = PostgresBackend(url, limit=10.0)
    await backend.open()
    assert await backend.office.take(FENCE) == FENCE
    try:
        yield backend
    finally:
        await backend.close()


async def ahead(backend: PostgresBackend) -> tuple[Schedule, datetime, asyncio.Task[Fired]]:
    """A firing that has done everything, and waits for its moment."""
    moment = await backend.now() + AHEAD
    [schedule] = await backend.schedules.change([adding("a", moment)])
    fire = asyncio.create_task(backend.schedules.fire(FENCE, [firing(schedule)], at=moment))
    async with asyncio.timeout(30):
        waits = (
            "SELECT 1 FROM pg_stat_activity"
            " WHERE wait_event = 'PgSleep' AND datname = current_database()"
        )
        while not await backend.schedules._database.one(waits, {}):
            assert not fire.done()
    return schedule, moment, fire


# -- what meets a firing under way ----------------------------------------------------------------


async def test_who_removes_a_schedule_that_fires_cancels_its_run(backend: PostgresBackend) -> None:
    _, _, fire = await ahead(backend)
    assert await backend.schedules.remove("a")
    assert await fire == Fired(fired=1)
    assert [run.state for run in await backend.runs.find()] == [RunState.CANCELLED]


async def test_who_runs_a_schedule_that_fires_overlaps_with_it(backend: PostgresBackend) -> None:
    _, _, fire = await ahead(backend)
    assert await backend.schedules.run_now("a", "key") == (None, True)
    assert await fire == Fired(fired=1)
    assert len(await backend.runs.find()) == 1


async def test_who_backfills_a_schedule_that_fires_does_not_repeat_it(
    backend: PostgresBackend,
) -> None:
    _, moment, fire = await ahead(backend)
    assert await backend.schedules.backfill("a", [moment]) == []
    assert await fire == Fired(fired=1)
    assert len(await backend.runs.find()) == 1


async def test_a_firing_lands_with_all_its_occurrences_or_with_none(
    backend: PostgresBackend, url: str
) -> None:
    """Whenever somebody lets go of the schedule while it is being fired: later each time, and until
    the firing was met once."""
    whole = 0
    with psycopg.connect(url) as other:
        for number in count():
            if number >= 30 and whole < number:
                break
            now, name = await backend.now(), f"s{number}"
            nominals = [now - timedelta(milliseconds=n) for n in range(999, 0, -1)]
            [schedule] = await backend.schedules.change([adding(name, nominals[0])])
            planned = tuple(Planned(nominal, nominal) for nominal in nominals)
            many = Firing(schedule.uid, 1, nominals[0], planned, None, None, None)
            other.execute("SELECT FROM tenure.schedule WHERE name = %s FOR UPDATE", [name])
            fire = asyncio.create_task(backend.schedules.fire(FENCE, [many]))
            await asyncio.wait([fire], timeout=0.001 * number)
            other.commit()
            done = await fire
            assert done in (Fired(fired=len(planned)), Fired(stale=1))
            whole += done.fired > 0
            lines = await backend.schedules.occurrences(name, limit=2_000)
            assert len(lines) == done.fired


# -- what fails half-way --------------------------------------------------------------------------


async def test_what_cannot_be_sent_commits_nothing_of_what_was(backend: PostgresBackend) -> None:
    moment = await backend.now() + AHEAD
    good, bad = await backend.schedules.change([adding("good", moment), adding("bad", moment)])
    faults = [Fault(bad.uid, bad.version, "a text that PostgreSQL does not take: \0")]
    with pytest.raises(StoreError, match="NUL"):
        await backend.schedules.fire(FENCE, [firing(good)], faults, moment)
    assert await backend.runs.find() == []
    async with asyncio.timeout(30):
        # The server may not have noticed yet that the connection was cut, and locks the row.
        while (fired := await backend.schedules.fire(FENCE, [firing(good)], at=moment)).stale:
            pass
    assert fired == Fired(fired=1)


@pytest.mark.parametrize("together", [False, True])
async def test_what_is_refused_at_the_end_says_why(
    backend: PostgresBackend, url: str, together: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the server's answers arrive one by one or, at a busy client, together."""
    moment = await backend.now()
    [schedule] = await backend.schedules.change([adding("a", moment)])
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'not on a Sunday'; END $$"
        )
        owner.execute(
            "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON tenure.run"
            " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()"
        )
    ready = connection._ready

    def late(poll: select.poll, wanted: Wait) -> Ready | None:
        time.sleep(0.05)
        return ready(poll, wanted)

    if together:
        monkeypatch.setattr(connection, "_ready", late)
    with pytest.raises(StoreError, match="not on a Sunday"):
        await backend.schedules.fire(FENCE, [firing(schedule)])
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("DROP FUNCTION refuse CASCADE")
    assert await backend.schedules.fire(FENCE, [firing(schedule)]) == Fired(fired=1)
    [line] = await backend.schedules.occurrences("a")
    assert line.state is OccurrenceState.FIRED
