"""Clauses of `RelayStore`: how far a relay has come, and what it could not deliver."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tenure.backends.base import EVENTS
from tenure.errors import Fenced
from tenure.model import (
    WAITING_LISTED,
    Acknowledgement,
    Fence,
    HeldLane,
    Lane,
    LoggedEvent,
    Parked,
    PrunedEvents,
    RelayProgress,
)
from tenure.testing.contract.event_groups import drained, stored
from tenure.testing.contract.events import event, ids
from tenure.testing.contract.harness import Harness, together

NAME, PLACE = "kafka", "kafka://broker:9092"


class RelayContract:
    """The relay "kafka", which delivers all topics, or only "ledger"."""

    async def test_new_relay_begins_with_the_oldest_event(self, harness: Harness) -> None:
        await stored(harness, 3)
        relay = await begun(harness)
        assert (relay.cursor, relay.held, relay.replays, relay.ended) == (0, (), (), None)
        assert ids(await harness.backend.relays.read((), relay.cursor)) == ["0", "1", "2"]

    async def test_new_relay_may_begin_with_what_comes(self, harness: Harness) -> None:
        await stored(harness, 3)
        relay = await begun(harness, from_now=True)
        await stored(harness, 1, first=3)
        assert ids(await harness.backend.relays.read((), relay.cursor)) == ["3"]
        assert (await begun(harness)).cursor == relay.cursor, "it is no longer new"

    async def test_relay_reads_its_topics_in_the_order_of_the_log(self, harness: Harness) -> None:
        fence = await harness.in_office()
        for number, topic in enumerate(("ledger", "mail", "other", "ledger", "mail")):
            await harness.events.append([event(str(number), topic=topic)])
        await harness.sequenced(fence)
        await harness.events.append([event("unsequenced")])
        relays = harness.backend.relays
        everything = await relays.read((), 0)
        assert ids(everything)[:5] == ["0", "1", "2", "3", "4"]
        assert ids(await relays.read(["ledger", "mail"], 0)) == _known(
            ["0", "1", "3", "4"], everything
        )
        assert ids(await relays.read(["mail", "ledger"], everything[0].position, 2)) == ["1", "3"]
        assert await relays.read(["nothing"], 0) == []

    async def test_lanes_are_read_from_where_they_are(self, harness: Harness) -> None:
        await stored(harness, 12, keys=3)
        log = await harness.backend.relays.read((), 0)
        first, last = log[1].position, log[9].position

        async def lane(lane: Lane, limit: int = 100, topics: Sequence[str] = ()) -> list[str]:
            read = harness.backend.relays.read_lane
            return ids(await read(topics, lane, first, last, limit))

        assert await lane(Lane("ledger", "key 0")) == ["3", "6", "9"]
        assert await lane(Lane("ledger", "key 0"), 2) == ["3", "6"]
        assert await lane(Lane("ledger", "nobody")) == []
        between = [str(n) for n in range(1, 10)]
        assert await lane(Lane("ledger")) == between
        assert await lane(Lane()) == between
        assert await lane(Lane(), topics=["nothing"]) == []
        assert await lane(Lane("ledger", None, log[4].position)) == ["4"]
        assert await lane(Lane("ledger", None, log[11].position)) == []
        assert await lane(Lane("ledger", None, log[0].position)) == []

    async def test_what_is_acknowledged_is_where_the_next_one_goes_on(
        self, harness: Harness
    ) -> None:
        log = await logged(harness, 6)
        relay, now = await begun(harness), await harness.now()
        a, b = Lane("ledger", "a\n\u00e9"), Lane("ledger", None, log[1].position)
        held = HeldLane(a, log[0].position, 2, 60.0, "not now"), HeldLane(b, 2, 1, 0.0, "no", True)
        assert await done(harness, relay, Acknowledgement(log[3].position, held))
        found = await begun(harness)
        assert found.cursor == log[3].position
        kept = {each.lane: each for each in found.held}
        assert replace(kept[a], due=60.0) == held[0]
        assert 0 < kept[a].due <= 60.0
        assert kept[b] == held[1]
        again = replace(held[0], tries=3), Lane("ledger", None, log[1].position)
        more = Acknowledgement(log[5].position, again[:1], again[1:], trouble="no answer")
        assert await done(harness, found, more)
        found = await begun(harness)
        assert [each.tries for each in found.held] == [3]
        [shown] = await harness.backend.relays.all()
        assert (shown.position, shown.held, shown.parked) == (log[5].position, 1, 0)
        assert shown.trouble == "no answer"
        assert shown.moved_at >= now

    async def test_the_same_may_be_acknowledged_again(self, harness: Harness) -> None:
        log = await logged(harness, 3)
        relay = await begun(harness)
        told = Acknowledgement(
            log[1].position,
            (HeldLane(Lane("ledger", "a"), 1),),
            (Lane("ledger", "b"),),
            (Parked(log[0].position, 3, "never"),),
            (log[1].position,),
        )
        for _ in range(2):
            assert await done(harness, relay, told)
        assert len((await begun(harness)).held) == 1
        [parked] = await harness.backend.relays.parked()
        assert (parked.position, parked.tries) == (log[0].position, 3)

    async def test_the_cursor_never_goes_back(self, harness: Harness) -> None:
        log = await logged(harness, 3)
        relay = await begun(harness)
        assert await done(harness, relay, Acknowledgement(log[2].position))
        assert await done(harness, relay, Acknowledgement(log[0].position))
        assert (await begun(harness)).cursor == log[2].position

    async def test_former_relay_changes_nothing(self, harness: Harness) -> None:
        log = await logged(harness, 3)
        relay = await begun(harness)
        successor = await begun(harness, term=2, holder="bob")
        told = Acknowledgement(log[2].position, (HeldLane(Lane("ledger"), 1),))
        with pytest.raises(Fenced):
            await done(harness, relay, told)
        with pytest.raises(Fenced):
            await harness.backend.relays.resume(_fence(), NAME, PLACE)
        assert await begun(harness, term=2, holder="bob") == successor

    async def test_of_two_relays_that_acknowledge_one_is_in_office(self, harness: Harness) -> None:
        log = await logged(harness, 20)
        relay = await begun(harness)
        other = await harness.another()
        successor = _fence(2, "bob")

        async def takes_over() -> RelayProgress:
            assert await other.office.take(successor) == successor
            return await other.relays.resume(successor, NAME, PLACE)

        calls = [done(harness, relay, Acknowledgement(each.position)) for each in log]
        *answers, taken = await together(*calls, takes_over())
        assert isinstance(taken, RelayProgress)
        assert all(isinstance(answer, bool | Fenced) for answer in answers), answers
        landed = [e.position for e, answer in zip(log, answers, strict=True) if answer is True]
        assert taken.cursor == max(landed, default=0)
        assert (await other.relays.resume(successor, NAME, PLACE)).cursor == taken.cursor

    # -- operators --------------------------------------------------------------------------------

    async def test_parked_lane_is_replayed(self, harness: Harness) -> None:
        log, relay = await with_parked_lane(harness)
        [parked] = await harness.backend.relays.parked(NAME)
        assert parked.event == log[0]
        assert (parked.relay, parked.position, parked.holds) == (NAME, log[0].position, True)
        assert (parked.topic, parked.key, parked.reason) == ("ledger", log[0].key, "refused")
        assert (parked.tries, parked.replayed) == (10, False)
        assert await harness.backend.relays.replay(NAME, [log[1].position]) == 0
        assert await harness.backend.relays.replay("nobody") == 0
        assert await harness.backend.relays.replay(NAME, [log[0].position]) == 1
        assert await harness.backend.relays.parked() == []
        [held] = (await begun(harness)).held
        assert held == HeldLane(Lane("ledger", log[0].key), log[0].position)
        assert not await done(harness, relay, Acknowledgement(log[1].position)), "it is outdated"
        assert (await begun(harness)).cursor == log[-1].position

    async def test_parked_lane_goes_on_without_what_is_dropped(self, harness: Harness) -> None:
        log, _ = await with_parked_lane(harness)
        assert await harness.backend.relays.drop(NAME) == 1
        assert await harness.backend.relays.drop(NAME) == 0
        [held] = (await begun(harness)).held
        assert held == HeldLane(Lane("ledger", log[0].key), log[0].position + 1)

    async def test_event_that_was_passed_over_is_replayed(self, harness: Harness) -> None:
        log = await logged(harness, 3)
        relay = await begun(harness)
        passed = tuple(Parked(each.position, 3, "never") for each in log[:2])
        assert await done(harness, relay, Acknowledgement(log[2].position, parked=passed))
        relays = harness.backend.relays
        assert [each.holds for each in await relays.parked()] == [False, False]
        assert [each.event for each in await relays.parked(limit=1)] == [log[0]]
        assert await relays.parked("nobody") == []
        assert await relays.replay(NAME, [log[1].position]) == 1
        assert [each.replayed for each in await relays.parked()] == [False, True]
        relay = await begun(harness)
        assert relay.replays == (log[1],)
        told = Acknowledgement(log[2].position, parked=(Parked(log[1].position, 1, "again"),))
        assert await done(harness, relay, told)
        assert (await begun(harness)).replays == ()
        assert [each.reason for each in await relays.parked()] == ["never", "again"]
        told = Acknowledgement(log[2].position, unparked=(log[1].position,))
        assert await done(harness, relay, told)
        assert await relays.drop(NAME, [log[0].position]) == 1
        assert await relays.parked() == []

    async def test_parked_event_tells_how_many_wait_behind_it(self, harness: Harness) -> None:
        await stored(harness, 7, keys=2)
        fence = await harness.in_office()
        await harness.events.append([event("mail", topic="mail"), event("other", topic="other")])
        await harness.sequenced(fence)
        log = await harness.backend.relays.read((), 0)
        relay = await begun(harness, topics=["ledger", "mail"])
        lanes = Lane("ledger", "key 0"), Lane("ledger"), Lane(), Lane("ledger", None, 1)
        held = tuple(HeldLane(lane, log[2].position, 9, 0, "no", parked=True) for lane in lanes)
        passed = Parked(log[0].position, 3, "never")
        assert await done(harness, relay, Acknowledgement(log[4].position, held, parked=(passed,)))
        found = await harness.backend.relays.parked()
        assert sorted((each.holds, each.waiting) for each in found) == [
            (False, 0),
            (True, 0),  # it was alone
            (True, 2),  # of its key: the fifth and the seventh
            (True, 4),  # of its topic
            (True, 5),  # of the topics of the relay
        ]

    async def test_what_waits_is_not_counted_for_a_long_list(self, harness: Harness) -> None:
        log = await logged(harness, 3)
        relay, last = await begun(harness), log[2].position
        passed = tuple(Parked(-n, 3, "never") for n in range(1, WAITING_LISTED + 1))
        held = HeldLane(Lane("ledger"), log[0].position, 9, 0.0, "no", parked=True)
        assert await done(harness, relay, Acknowledgement(last, (held,), (), passed[1:]))
        assert (await harness.backend.relays.parked())[-1].waiting == 2
        assert await done(harness, relay, Acknowledgement(last, parked=passed))
        found = await harness.backend.relays.parked(limit=WAITING_LISTED + 1)
        assert (len(found), found[-1].waiting) == (WAITING_LISTED + 1, None)

    async def test_parked_events_are_found_by_their_positions(self, harness: Harness) -> None:
        log = await logged(harness, 4)
        relay = await begun(harness)
        held = HeldLane(Lane("ledger", log[3].key), log[3].position, 9, 0.0, "no", parked=True)
        passed = tuple(Parked(each.position, 3, "never") for each in log[:3])
        assert await done(harness, relay, Acknowledgement(log[3].position, (held,), (), passed))

        async def at(*places: int, name: str | None = NAME, limit: int = 100) -> list[int]:
            positions = [log[place].position for place in places]
            found = await harness.backend.relays.parked(name, limit, positions=positions)
            return [log.index(each.event) for each in found if each.event is not None]

        assert await at(3, 1) == [1, 3]
        assert await at(3, 1, name=None, limit=1) == [1]
        assert await at(3, name="nobody") == []
        assert await at() == []
        assert await harness.backend.relays.parked(NAME, positions=[log[3].position + 1]) == []

    async def test_change_of_an_operator_wakes_the_relay(self, harness: Harness) -> None:
        await with_parked_lane(harness)
        relays, woken = harness.backend.relays, asyncio.Event()
        before = await relays.revision(NAME)
        stop = harness.backend.wakeups.subscribe(EVENTS, woken.set)
        other = await harness.another()
        await other.relays.replay(NAME)
        assert await harness.heard(woken)
        stop()
        assert await relays.revision(NAME) > before
        assert await relays.revision("nobody") == 0

    async def test_relay_whose_sink_has_ended_can_go_on(self, harness: Harness) -> None:
        log = await logged(harness, 1)
        relay, relays = await begun(harness), harness.backend.relays
        assert not await relays.revive(NAME)
        assert await done(harness, relay, Acknowledgement(0, trouble="410", ended="410"))
        assert (await begun(harness)).ended == "410"
        [shown] = await relays.all()
        assert (shown.ended, shown.unread) == ("410", len(log))
        assert await relays.revive(NAME)
        relay = await begun(harness)
        assert relay.ended is None
        assert await relays.revision(NAME) == relay.revision

    async def test_forgotten_relay_is_new(self, harness: Harness) -> None:
        _, relay = await with_parked_lane(harness)
        assert await harness.backend.relays.forget(NAME)
        assert not await harness.backend.relays.forget(NAME)
        assert await harness.backend.relays.all() == []
        assert not await done(harness, relay, Acknowledgement(1))
        assert (await begun(harness)).held == ()

    async def test_relays_tell_how_far_they_have_come(self, harness: Harness) -> None:
        now, log = await harness.now(), await logged(harness, 5)
        relay = await begun(harness, topics=["ledger", "mail"])
        await harness.office.take(Fence("other", 1, "ann"))
        await harness.backend.relays.resume(Fence("other", 1, "ann"), "a", "x://", ["nothing"])
        other, shown = await harness.backend.relays.all()
        assert (other.name, other.topics, other.unread) == ("a", ("nothing",), 0)
        assert other.oldest is None
        assert (shown.name, shown.location, shown.topics) == (NAME, PLACE, ("ledger", "mail"))
        assert (shown.unread, shown.position, shown.ended) == (5, 0, None)
        assert shown.oldest is not None
        assert now <= shown.oldest <= await harness.now()
        held = HeldLane(Lane("ledger", log[1].key), log[1].position)
        assert await done(harness, relay, Acknowledgement(log[4].position, (held,)))
        _, shown = await harness.backend.relays.all()
        assert (shown.unread, shown.held, shown.oldest) == (0, 1, log[1].recorded_at)

    # -- retention --------------------------------------------------------------------------------

    async def test_events_stay_until_every_relay_has_delivered_them(self, harness: Harness) -> None:
        log = await logged(harness, 4)
        relay, fence = await begun(harness, topics=["mail", "ledger"]), await harness.in_office()
        await harness.events.follow("ledger", "billing")
        await drained(harness)
        await harness.advance(harness.ttl)
        old, trim = harness.ttl / 2, harness.events.trim
        assert await trim(fence, old, 9e6, 10) == PrunedEvents(0)
        held = HeldLane(Lane("ledger", log[2].key), log[2].position)
        assert await done(harness, relay, Acknowledgement(log[3].position, (held,)))
        assert await trim(fence, old, 9e6, 10) == PrunedEvents(2)
        passed = Parked(log[3].position, 1, "never")
        told = Acknowledgement(log[3].position, (), (held.lane,), (passed,))
        assert await done(harness, relay, told)
        assert await trim(fence, old, 9e6, 10) == PrunedEvents(1)
        assert await harness.backend.relays.drop(NAME) == 1
        assert await trim(fence, old, 9e6, 10) == PrunedEvents(1)

    async def test_relay_keeps_only_its_topics(self, harness: Harness) -> None:
        await logged(harness, 2)
        await begun(harness, topics=["ledgers", "mail"])
        fence = await harness.in_office()
        await harness.advance(harness.ttl)
        assert await harness.events.trim(fence, harness.ttl / 2, 9e6, 10) == PrunedEvents(2)

    async def test_very_old_events_go_undelivered(self, harness: Harness) -> None:
        await logged(harness, 2)
        await begun(harness)
        fence = await harness.in_office()
        await harness.advance(harness.ttl)
        gone = await harness.events.trim(fence, harness.ttl / 2, harness.ttl / 2, 10)
        assert gone == PrunedEvents(2, unread=2)


def _fence(term: int = 1, holder: str = "ann") -> Fence:
    return Fence(f"tenure/relay/{NAME}", term, holder)


async def begun(
    harness: Harness,
    *,
    term: int = 1,
    holder: str = "ann",
    topics: Sequence[str] = (),
    from_now: bool = False,
) -> RelayProgress:
    fence = _fence(term, holder)
    assert await harness.office.take(fence) == fence
    return await harness.backend.relays.resume(fence, NAME, PLACE, topics, from_now=from_now)


async def done(harness: Harness, relay: RelayProgress, told: Acknowledgement) -> bool:
    return await harness.backend.relays.acknowledge(_fence(), NAME, relay.revision, told)


async def logged(harness: Harness, count: int) -> list[LoggedEvent]:
    """Events of two keys."""
    await stored(harness, count, keys=2)
    return await harness.backend.relays.read((), 0)


async def with_parked_lane(harness: Harness) -> tuple[list[LoggedEvent], RelayProgress]:
    log = await logged(harness, 4)
    relay = await begun(harness)
    held = HeldLane(Lane("ledger", log[0].key), log[0].position, 10, 9.0, "refused", parked=True)
    assert await done(harness, relay, Acknowledgement(log[-1].position, (held,)))
    return log, relay


def _known(wanted: list[str], log: Sequence[LoggedEvent]) -> list[str]:
    """And what has no position when it is stored, on stores that give it at once."""
    return wanted + [each.id for each in log if each.id == "unsequenced"]
