"""A PostgreSQL database that has another order than that of bytes; test_postgres.py runs the
contract in one. Leases are found by what their names begin with, however many others there are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tenure.backends.postgres import PostgresBackend
from tenure.node.presence import PRESENCE
from tenure.testing.contract import lease_machine
from tests.contract import test_postgres
from tests.contract.statement_plans import scans
from tests.support.servers import NoLocale, PostgresServer


@pytest.fixture
def server(server_with_locale: PostgresServer | None) -> PostgresServer:
    if server_with_locale is None:
        pytest.skip("this machine cannot make a locale: install locales")
    return server_with_locale


@pytest.fixture(autouse=True)
def order(server: PostgresServer) -> Iterator[None]:
    """The harness of the contract takes the last server."""
    test_postgres.servers.append(server)
    yield
    test_postgres.servers.pop()


def test_server_is_not_in_the_order_of_bytes(server: PostgresServer) -> None:
    with psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT 'a' < 'B'").fetchone() == (True,)


def test_a_locale_that_is_not_to_be_had_leaves_nothing_behind(tmp_path: Path) -> None:
    """Else a machine without the sources of locales failed here instead of skipping this."""
    with pytest.raises(NoLocale):
        PostgresServer(directory=tmp_path, locale="xx_YY")
    assert not list(tmp_path.iterdir())


async def test_names_are_listed_in_the_order_of_their_characters() -> None:
    """As in every other store."""
    async with test_postgres.open_postgres() as harness:
        for name in ("b", "B", "a", "A", "ä", "_"):
            await harness.grant(name)
        names = [record.name for record in await harness.leases.all()]
        assert names == ["A", "B", "_", "a", "b", "ä"]


TestLeaseMachine = lease_machine(test_postgres.open_postgres, examples=10).TestCase


async def test_presences_are_found_by_index_among_many_locks(server: PostgresServer) -> None:
    url = server.create_database("many_locks")
    backend = PostgresBackend(url)
    await backend.open()
    try:
        await _fill(url)
        leases = backend.leases
        page = {"namespace": "default", "prefix": PRESENCE, "beyond": "tenure/node0", "after": ""}
        statement = leases._sql["page"]
        assert await scans(leases._database, statement, {**page, "limit": None}) == {
            "lease": "lease_name"
        }
        # Buffers, not time: what was read does not depend on what else the machine does.
        text = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}"
        [row] = await leases._database.one(text, {**page, "limit": None})
        plan = row["QUERY PLAN"][0]["Plan"]
        assert plan["Actual Rows"] == 10
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 50
        assert len(await leases.all(PRESENCE)) == 10
    finally:
        await backend.close()


async def _fill(url: str, locks: int = 20_000) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            """
            INSERT INTO tenure.lease (namespace, name, term, ttl, fenced, counter, acquired_at,
                renewed_at, expires_at, expires_boot)
            SELECT 'default', name, 1, 30, false, 0, now(), now(), now(), 0
            FROM (SELECT 'order ' || n AS name FROM generate_series(1, %s) n
                  UNION ALL SELECT 'tenure/node/' || n FROM generate_series(1, 10) n
                  UNION ALL SELECT 'user ' || n FROM generate_series(1, %s) n) names
            """,
            (locks, locks),
        )
        connection.execute("VACUUM ANALYZE tenure.lease")
