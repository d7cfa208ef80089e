"""The log of events on PostgreSQL, when there are many and the server has no statistics yet."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from tenure.backends.postgres import PostgresBackend
from tenure.model import Content, Fence, NewEvent
from tests.contract.statement_plans import nodes, steps
from tests.support.servers import PostgresServer

EVENTS, KEYS = 6_000, 500
OF_A_PARTITION: dict[str, dict[str, Any]] = {
    "take": {"topic": "ledger", "name": "billing", "limit": 100, "few": 4},
    "has_unread": {"topic": "ledger", "name": "billing"},
    "groups": {"topic": None, "counted": 100_000},
    "prune": {
        "topic": "ledger",
        "older_than": 1.0,
        "unread_after": 1.0,
        "limit": 100,
        "dry_run": True,
        "scope": None,
        "term": None,
        "holder": None,
    },
}

BACKLOG = """
INSERT INTO tenure.event
    (namespace, id, topic, type, key, time, data, headers, recorded_at, position, key_number,
     partition)
SELECT 'default', n::text, 'ledger', 'Said', (n %% 100)::text, now(), '1', '{}', now(), n, n, 0
FROM generate_series(1, %(count)s) AS n
"""


async def test_many_events_are_placed_and_read_in_time(postgres: PostgresServer) -> None:
    """Each statement is ended after five seconds: none may compare each event with all others."""
    backend = PostgresBackend(postgres.create_database("many_events"))
    await backend.open()
    try:
        fence, events = Fence("contract", 1, "ann"), backend.events
        assert await backend.office.take(fence) == fence
        new = [
            NewEvent(str(n), Content("ledger", "Said", str(n), f"key {n % KEYS}"))
            for n in range(EVENTS)
        ]
        assert await events.append(new) == EVENTS
        assert await events.follow("ledger", "billing")
        while await events.sequence(fence, 1_000):
            pass
        async with asyncio.timeout(60):
            seen = []
            while batch := await events.consume("ledger", "billing", 500):
                seen += batch
        assert len({event.id for event in seen}) == len(seen) == EVENTS
        numbers: dict[str | None, list[int]] = {}
        for event in seen:
            numbers.setdefault(event.key, []).append(event.key_number)
        assert len(numbers) == KEYS
        for found in numbers.values():
            assert found == list(range(found[0], found[0] + EVENTS // KEYS))
        assert (await events.trim(fence, 0.0, 9e6, 100)).count == 100
        assert (await events.trim(None, 0.0, 9e6, EVENTS)).count == EVENTS - 100
    finally:
        await backend.close()


@pytest.mark.parametrize("analyzed", [False, True], ids=["without statistics", "with them"])
async def test_events_of_a_partition_are_found_by_its_index(
    postgres: PostgresServer, analyzed: bool
) -> None:
    """By that of the topic, each look would read all that is unread of the topic, 16 times."""
    backend = PostgresBackend(postgres.create_database(f"planned_events_{analyzed}"))
    await backend.open()
    try:
        fence, events = Fence("contract", 1, "ann"), backend.events
        assert await backend.office.take(fence) == fence
        await events.append(
            [NewEvent(str(n), Content("ledger", "Said", "1", f"key {n}")) for n in range(EVENTS)]
        )
        assert await events.follow("ledger", "billing")
        while await events.sequence(fence, 1_000):
            pass
        if analyzed:
            await events._database.one("ANALYZE", {})
        for name, values in OF_A_PARTITION.items():
            named = {"namespace": "default", **values}
            steps = await nodes(events._database, events._sql[name], named)
            used = {
                step.get("Index Name", step["Node Type"])
                for step in steps
                if step.get("Relation Name") == "event" and step["Node Type"] != "ModifyTable"
            }
            assert used - {"event_pkey"} == {"event_partition"}, name
    finally:
        await backend.close()


@pytest.mark.parametrize("analyzed", [False, True], ids=["without statistics", "with them"])
async def test_relay_reads_a_batch_and_not_the_whole_backlog(
    postgres: PostgresServer, analyzed: bool
) -> None:
    """In the order of an index: to sort them, each batch would have to read all that is unread."""
    backend = PostgresBackend(postgres.create_database(f"backlog_{analyzed}"))
    await backend.open()
    try:
        relays = backend.relays
        await relays._database.one(BACKLOG, {"count": 30_000})
        if analyzed:
            await relays._database.one("ANALYZE", {})
        of_one = {"topics": ["ledger"], "topic": "ledger", "key": "7"}
        for name in ("read", "read_topics", "read_key"):
            values = {"namespace": "default", "after": 100, "limit": 500, **of_one}
            text = f"EXPLAIN (FORMAT JSON, ANALYZE) {relays._sql[name]}"
            _, [row] = await relays._database.run((relays._sql["in_order"], {}), (text, values))
            [plan] = row["QUERY PLAN"]
            read = [step["Actual Rows"] for step in steps(plan["Plan"])]
            assert max(read) <= 500, name
        assert [event.position for event in await relays.read((), 100, 3)] == [101, 102, 103]
    finally:
        await backend.close()


@pytest.mark.parametrize("position", [2**63 - 1, 2**53 - 1])
async def test_events_after_one_that_was_put_at_the_end_get_positions(
    postgres: PostgresServer, position: int
) -> None:
    url = postgres.create_database("last_event")
    backend = PostgresBackend(url)
    await backend.open()
    try:
        fence, events = Fence("contract", 1, "ann"), backend.events
        assert await backend.office.take(fence) == fence
        for name in ("first", "bad"):
            await events.append([NewEvent(name, Content("ledger", "Said", "1", "key"))])
        assert await events.sequence(fence) == 2
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as hand:
            await hand.execute("UPDATE tenure.event SET position = %s WHERE id = 'bad'", [position])
            await hand.execute("UPDATE tenure.event_log SET position = %s", [position])
        for n in range(3):
            await events.append([NewEvent(str(n), Content("ledger", "Said", "1", "key"))])
            assert await events.sequence(fence) == 1
        found = {event.id: event.position for event in await events.find()}
        assert [found[name] for name in ("first", "0", "1", "2")] == [1, 2, 3, 4]
    finally:
        await backend.close()


async def test_number_of_a_key_that_was_put_there_by_hand_is_not_counted_on(
    postgres: PostgresServer,
) -> None:
    """Nobody would get a position any more: the next number is none that the column can hold."""
    backend = PostgresBackend(postgres.create_database("key_number"))
    await backend.open()
    try:
        fence, events = Fence("contract", 1, "ann"), backend.events
        assert await backend.office.take(fence) == fence
        for number in (2**63 - 1, 9_000_000_000_000_000, 5):
            await events.append([NewEvent(f"before {number}", Content("a", "Said", "1", "k"))])
            assert await events.sequence(fence) == 1
            await events._database.one(
                "UPDATE tenure.event SET key_number = %(number)s", {"number": number}
            )
            await events.append([NewEvent(f"after {number}", Content("a", "Said", "1", "k"))])
            assert await events.sequence(fence) == 1
            [last] = await events.find([f"after {number}"])
            assert last.key_number == (6 if number == 5 else last.position)
    finally:
        await backend.close()
