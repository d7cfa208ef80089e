"""What sessions of our own on PostgreSQL are used for: limits set once, prepared statements."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest
from psycopg._queries import MAX_CACHED_STATEMENT_LENGTH

from tenure.backends.postgres import PostgresBackend
from tenure.backends.postgres.connections.database import PREPARE_AFTER, Database
from tenure.backends.postgres.statements import Statement
from tenure.errors import StoreError
from tenure.model import Fence, Grant
from tenure.process.identity import new_holder

OFTEN = PREPARE_AFTER + 2
LONG = {
    "fire_late",  # after an outage, for a thousand schedules at once
    "claim_in_turn",  # for many runs of many tenants
    # While a task with max_running has room, and runs of it wait.
    *("choose", "claim_limited", "claim_in_turn_limited", "claim_rest_limited"),
}


@pytest.fixture
async def backend(url: str) -> AsyncIterator[PostgresBackend]:
    backend = PostgresBackend(url, limit=4.0)
    await backend.open()
    try:
        yield backend
    finally:
        await backend.close()


async def test_a_session_is_told_its_limits_once(backend: PostgresBackend) -> None:
    leases = backend._for_leases
    assert await _limits(leases) == ("4s", "2s", "4s", "UTC", "tenure leases")
    assert await _limits(leases, limit=1.0) == ("1s", "500ms", "1s", "UTC", "tenure leases")
    assert await _limits(leases, limit=60.0) == ("4s", "2s", "4s", "UTC", "tenure leases")


async def test_a_leaders_transaction_has_its_name_and_only_that(backend: PostgresBackend) -> None:
    entering = backend.office.entering(Fence("leader", 7, "ann"))
    _, [inside] = await backend._for_the_rest.run(entering, (_NAME, {}))
    assert inside["name"] == "tenure leader 7"
    assert (await backend._for_the_rest.one(_NAME, {}))[0]["name"] != "tenure leader 7"


async def test_statements_that_are_sent_together_are_one_transaction(
    backend: PostgresBackend,
) -> None:
    database = backend._for_the_rest
    moved: Statement = ("UPDATE tenure.fence SET term = term + 1", {})
    identity: Statement = ("SELECT pg_current_xact_id()::text AS xact", {})
    successor = Fence("leader", 7, "ann")
    assert await backend.office.take(successor) == successor
    _, [first], [second] = await database.run(moved, identity, identity)
    assert first == second
    assert (await backend.schedules.backlog("leader")).term == 8
    with pytest.raises(StoreError, match="division by zero"):
        await database.run(moved, moved, ("SELECT 1 / 0", {}))
    assert (await backend.schedules.backlog("leader")).term == 8


async def test_what_is_asked_often_stays_prepared(backend: PostgresBackend) -> None:
    for _ in range(OFTEN):
        await backend.leases.read("job")
    assert await _prepared(backend._for_leases) > 0


async def test_a_migration_under_way_is_not_noticed(backend: PostgresBackend, url: str) -> None:
    """Of newer code, that runs beside ours: what was prepared has one column less."""
    for _ in range(OFTEN):
        grant = await backend.leases.acquire("job", new_holder(), 10.0)
        assert isinstance(grant, Grant)
        assert await backend.leases.read("job") is not None
        assert await backend.leases.evict("job", "why not") is not None
        lease = backend.leases.acquire_blocking("job", new_holder(), 10.0)
        assert isinstance(lease, Grant)
        assert backend.leases.release_blocking(lease)
        list((await backend.schedules.find()).values())
    with psycopg.connect(url, autocommit=True) as newer:
        for table in ("lease", "lease_history", "schedule", "run"):
            newer.execute(f"ALTER TABLE tenure.{table} ADD COLUMN newer text")
    grant = await backend.leases.acquire("job", new_holder(), 10.0)
    assert isinstance(grant, Grant)
    assert await backend.leases.read("job") is not None
    assert await backend.leases.evict("job", "why not") is not None
    lease = backend.leases.acquire_blocking("job", new_holder(), 10.0)
    assert isinstance(lease, Grant)
    assert backend.leases.release_blocking(lease)
    assert await backend.schedules.find() == {}
    assert await backend.leases.history("job") != []


async def test_a_pooler_that_does_not_look_like_one_is_noticed(backend: PostgresBackend) -> None:
    """It gives the session to another, and with it what was prepared there."""
    for _ in range(OFTEN):
        await backend.leases.read("job")
    await backend._for_leases.one("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$", {})
    assert await backend.leases.read("job") is None  # asked again, elsewhere
    for _ in range(OFTEN):
        assert await backend.leases.read("job") is None
    assert await _prepared(backend._for_leases) == 0
    assert await _limits(backend._for_leases) == ("4s", "2s", "4s", "UTC", "tenure leases")


_NAME = "SELECT current_setting('application_name') AS name"


async def _limits(database: Database, limit: float | None = None) -> tuple[str, ...]:
    names = (
        "statement_timeout",
        "lock_timeout",
        "idle_in_transaction_session_timeout",
        "TimeZone",
        "application_name",
    )
    shown = ", ".join(f"current_setting('{name}') AS setting_{i}" for i, name in enumerate(names))
    [row] = await database.one(f"SELECT {shown}", {}, limit)
    return tuple(row.values())


async def _prepared(database: Database) -> int:
    [row] = await database.one("SELECT count(*) AS n FROM pg_prepared_statements", {})
    return int(row["n"])


async def test_the_driver_remembers_every_statement(backend: PostgresBackend) -> None:
    """It reads those that are longer than this each time anew, which takes longer than all else."""
    for file in ("office", "schedules", "runs", "leases", "editions"):
        for name, text in backend._for_the_rest.statements(f"sql/{file}.sql").items():
            if name not in LONG:
                assert len(text) <= MAX_CACHED_STATEMENT_LENGTH, name
