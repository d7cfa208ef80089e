"""Clauses of `EventStore`: the log, and its order."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

from tenure.backends.base import EVENTS
from tenure.errors import Fenced
from tenure.model import Content, LoggedEvent, NewEvent
from tenure.testing.contract.harness import Harness, together
from tenure.testing.contract.joining import join


def event(identity: str, key: str | None = None, topic: str = "ledger", **options: Any) -> NewEvent:
    data = json.dumps(options.pop("data", identity))
    return NewEvent(identity, Content(topic, "Said", data, key), **options)


def ids(events: list[LoggedEvent]) -> list[str]:
    return [each.id for each in events]


class EventContract:
    """Storing, giving positions, reading."""

    async def test_event_is_read_as_it_was_stored(self, harness: Harness) -> None:
        fence, now = await harness.in_office(), await harness.now()
        happened = now - timedelta(days=1, microseconds=1)
        content = Content("ledger", "Ended", '{"a":[1,"ä"]}', "k", '{"x":"y"}')
        new = NewEvent("1", content, "month-end", happened, "00-ab-cd-01")
        assert await harness.events.append([new, event("2")]) == 2
        await harness.sequenced(fence)
        other = await harness.another()
        first, second = await other.events.read("ledger")
        assert (first.id, first.topic, first.type, first.key) == ("1", "ledger", "Ended", "k")
        assert (first.data, first.headers) == ('{"a":[1,"ä"]}', {"x": "y"})
        assert (first.subject, first.time) == ("month-end", happened)
        assert (first.source, first.traceparent) == ("/tenure/default", "00-ab-cd-01")
        assert first.recorded_at >= now
        assert 0 < first.position < second.position
        assert (second.key, second.subject, second.key_number) == (None, None, 0)
        assert (second.data, second.headers) == ('"2"', {})
        assert now <= second.time <= await harness.now()

    async def test_known_id_is_not_stored_again(self, harness: Harness) -> None:
        fence = await harness.in_office()
        assert await harness.events.append([event("1", data="first")]) == 1
        assert await harness.events.append([event("1", data="second"), event("2")]) == 1
        await harness.sequenced(fence)
        assert [each.data for each in await harness.events.read("ledger")] == ['"first"', '"2"']

    async def test_of_simultaneous_calls_with_one_id_one_stores_it(self, harness: Harness) -> None:
        backends = await harness.backends(3)
        stored = await together(*(b.events.append([event("1")]) for b in backends))
        assert sorted(stored) == [0, 0, 1]

    async def test_reader_goes_on_from_the_last_position(self, harness: Harness) -> None:
        fence = await harness.in_office()
        await harness.events.append([event(str(n)) for n in range(7)])
        await harness.events.append([event("other", topic="audit")])
        await harness.sequenced(fence)
        first = await harness.events.read("ledger", limit=4)
        assert ids(first) == ["0", "1", "2", "3"]
        rest = await harness.events.read("ledger", first[-1].position)
        assert ids(rest) == ["4", "5", "6"]
        assert await harness.events.read("ledger", rest[-1].position) == []
        assert ids(await harness.events.read("audit")) == ["other"]
        assert await harness.events.read("nobody's") == []

    async def test_positions_grow_and_stay(self, harness: Harness) -> None:
        fence, seen = await harness.in_office(), list[LoggedEvent]()
        for n in range(4):
            await harness.events.append([event(f"{n}a", "k"), event(f"{n}b")])
            await harness.sequenced(fence)
            seen += await harness.events.read("ledger", seen[-1].position if seen else 0)
        assert ids(seen) == ["0a", "0b", "1a", "1b", "2a", "2b", "3a", "3b"]
        assert await harness.events.read("ledger") == seen
        assert len({each.position for each in seen}) == 8

    async def test_positions_are_given_in_portions(self, harness: Harness) -> None:
        fence = await harness.in_office()
        await harness.events.append([event(str(n), "k") for n in range(5)])
        given = [await harness.events.sequence(fence, 2) for _ in range(4)]
        if given[0]:  # else the store gives them at once
            assert given == [2, 2, 1, 0]
        read = await harness.events.read("ledger")
        assert ids(read) == ["0", "1", "2", "3", "4"]
        numbers = [each.key_number for each in read]
        assert numbers == list(range(numbers[0], numbers[0] + 5))

    async def test_oldest_event_without_a_position_is_known(self, harness: Harness) -> None:
        fence = await harness.in_office()
        assert await harness.events.unplaced() is None
        for n in range(3):
            await harness.events.append([event(f"{n}a"), event(f"{n}b")])
        oldest = await harness.events.unplaced()
        if oldest is not None:  # else the store gives positions at once
            assert (oldest.id, oldest.position) == ("0a", 0)
            await harness.events.sequence(fence, 3)
            oldest = await harness.events.unplaced()
            assert oldest is not None
            assert oldest.id == "1b"
        await harness.sequenced(fence)
        assert await harness.events.unplaced() is None

    async def test_events_of_a_key_are_counted(self, harness: Harness) -> None:
        fence = await harness.in_office()
        await harness.events.append([event("a1", "a"), event("b1", "b"), event("a2", "a")])
        await harness.sequenced(fence)
        await harness.events.append([event("x", "a", topic="audit"), event("a3", "a")])
        await harness.events.append([event("b2", "b"), event("none")])
        await harness.sequenced(fence)
        read = {each.id: each for each in await harness.events.read("ledger")}
        a, b = read["a1"].key_number, read["b1"].key_number
        assert (a, b) == (read["a1"].position, read["b1"].position)
        assert (read["a2"].key_number, read["a3"].key_number) == (a + 1, a + 2)
        assert read["b2"].key_number == b + 1
        assert read["none"].key_number == 0

    async def test_former_leader_gives_no_positions(self, harness: Harness) -> None:
        former = await harness.in_office(1, "ann")
        present = await harness.in_office(2, "bob")
        await harness.events.append([event("1")])
        if not await harness.events.read("ledger"):
            with pytest.raises(Fenced):
                await harness.events.sequence(former)
            assert await harness.events.read("ledger") == []
        await harness.sequenced(present)
        assert ids(await harness.events.read("ledger")) == ["1"]

    async def test_two_calls_at_the_same_time_give_no_position_twice(
        self, harness: Harness
    ) -> None:
        fence = await harness.in_office()
        backends = await harness.backends(3)
        await harness.events.append([event(str(n), f"key {n % 3}") for n in range(30)])
        await together(*(b.events.sequence(fence, 20) for b in backends))
        await harness.sequenced(fence)
        read = await harness.events.read("ledger")
        assert len({each.position for each in read}) == 30
        for key in range(3):
            of_key = [each for each in read if each.key == f"key {key}"]
            first = of_key[0].key_number
            assert ids(of_key) == [str(n) for n in range(key, 30, 3)]
            assert [each.key_number for each in of_key] == list(range(first, first + 10))

    async def test_found_newest_first_with_or_without_a_position(self, harness: Harness) -> None:
        fence = await harness.in_office()
        await harness.events.append([event("1", "k"), event("2", topic="audit")])
        await harness.sequenced(fence)
        await harness.events.append([event("3", "k")])
        find = harness.events.find
        assert ids(await find()) == ["3", "2", "1"]
        assert ids(await find(limit=2)) == ["3", "2"]
        assert ids(await find(topic="ledger")) == ["3", "1"]
        assert ids(await find(key="k", limit=1)) == ["3"]
        assert ids(await find(["1", "2", "none"])) == ["2", "1"]
        assert ids(await find(type="Said", topic="audit")) == ["2"]
        assert await find(type="Unsaid") == []
        await harness.sequenced(fence)
        newest, middle, oldest = await find()
        assert ids(await find(below=newest.position)) == ["2", "1"]
        assert ids(await find(below=middle.position, topic="ledger")) == ["1"]
        assert await find(below=oldest.position) == []
        await harness.events.append([event("4")])  # without a position, perhaps
        assert ids(await find(below=middle.position)) == ["1"]

    async def test_readers_are_woken(self, harness: Harness) -> None:
        fence, heard = await harness.in_office(), asyncio.Event()
        other = await harness.another()
        stop = other.wakeups.subscribe(EVENTS, heard.set)
        await harness.events.append([event("1")])
        await harness.sequenced(fence)
        assert await harness.heard(heard)
        stop()

    # -- in the user's transaction ----------------------------------------------------------------

    async def test_event_of_a_transaction_is_there_if_it_commits(self, harness: Harness) -> None:
        fence = await harness.in_office()
        for end, expected in (("rollback", list[str]()), ("commit", ["1"])):
            lent, joined = await join(harness)
            assert await joined.events.append([event("1")]) == 1
            assert ids(await harness.events.find()) == []
            getattr(lent, end)()
            await harness.sequenced(fence)
            assert ids(await harness.events.read("ledger")) == expected

    async def test_reader_does_not_miss_what_is_committed_late(self, harness: Harness) -> None:
        if not harness.many_writers:
            pytest.skip("this store has one writer at a time")
        fence = await harness.in_office()
        lent, joined = await join(harness)
        await joined.events.append([event("late", "k")])
        await harness.events.append([event("early", "k")])
        await harness.sequenced(fence)
        read = await harness.events.read("ledger")
        assert ids(read) == ["early"]
        lent.commit()
        await harness.sequenced(fence)
        rest = await harness.events.read("ledger", read[-1].position)
        assert ids(rest) == ["late"]
        assert rest[0].key_number == read[0].key_number + 1
