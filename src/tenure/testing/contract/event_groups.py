"""Clauses of `EventStore`: groups of consumers, and what is kept for them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tenure.errors import Fenced
from tenure.model import Fence, LoggedEvent, PrunedEvents
from tenure.testing.contract.events import event, ids
from tenure.testing.contract.harness import Harness, together
from tenure.testing.contract.joining import join


class EventGroupContract:
    """The group "billing" of the topic "ledger"."""

    async def test_group_reads_each_event_once(self, harness: Harness) -> None:
        await stored(harness, 7)
        other = await harness.another()
        assert await harness.events.follow("ledger", "billing")
        assert await other.events.has_unread("ledger", "billing")
        assert not await other.events.follow("ledger", "billing")
        seen = await drained(harness, limit=3)
        assert sorted(ids(seen)) == [str(n) for n in range(7)]
        assert await other.events.consume("ledger", "billing") == []
        assert not await other.events.has_unread("ledger", "billing")
        await stored(harness, 2, first=7)
        assert sorted(ids(await drained(harness))) == ["7", "8"]

    async def test_groups_do_not_disturb_each_other(self, harness: Harness) -> None:
        await stored(harness, 3)
        for group in ("billing", "audit"):
            assert await harness.events.follow("ledger", group)
            assert len(await drained(harness, group)) == 3
        assert await harness.events.consume("ledger", "nobody") == []
        assert await harness.events.consume("nothing", "billing") == []

    async def test_events_of_a_key_come_in_their_order(self, harness: Harness) -> None:
        await stored(harness, 40, keys=7)
        await harness.events.follow("ledger", "billing")
        seen = await drained(harness, limit=5)
        for key in range(7):
            of_key = [each for each in seen if each.key == f"key {key}"]
            assert ids(of_key) == [str(n) for n in range(key, 40, 7)]

    async def test_of_simultaneous_consumers_each_gets_others(self, harness: Harness) -> None:
        await stored(harness, 30, keys=9)
        await harness.events.follow("ledger", "billing")
        backends, seen = await harness.backends(3), list[LoggedEvent]()
        while batches := await together(
            *(b.events.consume("ledger", "billing", 4) for b in backends)
        ):
            if not any(batches):
                break
            seen += [each for batch in batches for each in batch]
        assert sorted(ids(seen), key=int) == [str(n) for n in range(30)]

    async def test_group_may_begin_with_what_comes(self, harness: Harness) -> None:
        await stored(harness, 3)
        await harness.events.follow("ledger", "billing", from_now=True)
        await stored(harness, 2, first=3)
        assert sorted(ids(await drained(harness))) == ["3", "4"]

    async def test_group_can_go_back_and_forth(self, harness: Harness) -> None:
        await stored(harness, 6)
        await harness.events.follow("ledger", "billing")
        seen = sorted(await drained(harness), key=lambda each: each.position)
        assert await harness.events.seek("ledger", "billing", seen[3].position)
        assert sorted(ids(await drained(harness))) == ["4", "5"]
        assert await harness.events.seek("ledger", "billing", 0)
        assert len(await drained(harness)) == 6
        assert not await harness.events.seek("ledger", "nobody", 0)

    async def test_position_at_a_time(self, harness: Harness) -> None:
        await stored(harness, 2)
        await harness.advance(harness.ttl / 10)
        between = await harness.now()
        await stored(harness, 2, first=2)
        after = await harness.events.position_at("ledger", between)
        assert ids(await harness.events.read("ledger", after)) == ["2", "3"]
        later = await harness.now() + timedelta(seconds=60)
        last = await harness.events.position_at("ledger", later)
        assert await harness.events.read("ledger", last) == []
        never = datetime(9999, 1, 1, tzinfo=UTC)
        assert await harness.events.position_at("ledger", never) == last

    async def test_groups_tell_how_far_they_have_come(self, harness: Harness) -> None:
        now = await harness.now()
        await stored(harness, 5)
        await harness.events.follow("ledger", "billing")
        await harness.events.follow("ledger", "audit", from_now=True)
        audit, billing = await harness.events.groups()
        assert (audit.topic, audit.name, audit.unread, audit.oldest) == ("ledger", "audit", 0, None)
        assert (billing.name, billing.unread, billing.position) == ("billing", 5, 0)
        assert billing.oldest is not None
        assert now <= billing.oldest <= await harness.now()
        seen = await drained(harness)
        [_, billing] = await harness.events.groups("ledger")
        assert (billing.unread, billing.oldest) == (0, None)
        assert billing.position == max(each.position for each in seen)
        assert billing.moved_at >= now
        assert await harness.events.groups("nothing") == []

    async def test_dropped_group_is_gone(self, harness: Harness) -> None:
        await stored(harness, 1)
        await harness.events.follow("ledger", "billing")
        assert await harness.events.drop("ledger", "billing")
        assert not await harness.events.drop("ledger", "billing")
        assert await harness.events.groups() == []
        assert await harness.events.consume("ledger", "billing") == []

    # -- in the user's transaction ----------------------------------------------------------------

    async def test_position_commits_with_the_transaction(self, harness: Harness) -> None:
        await stored(harness, 3)
        await harness.events.follow("ledger", "billing")
        lent, joined = await join(harness)
        first = [*await joined.events.consume("ledger", "billing")]
        assert first
        lent.rollback()
        lent, joined = await join(harness)
        again = [*await joined.events.consume("ledger", "billing")]
        assert again == first
        lent.commit()
        rest = await drained(harness)
        assert sorted(ids([*again, *rest])) == ["0", "1", "2"]

    async def test_other_consumers_go_on_with_other_keys(self, harness: Harness) -> None:
        if not harness.many_writers:
            pytest.skip("this store has one writer at a time")
        await stored(harness, 64, keys=64)
        await harness.events.follow("ledger", "billing")
        lent, joined = await join(harness)
        mine = await joined.events.consume("ledger", "billing", 4)
        others = await drained(harness)
        assert others
        assert not {each.key for each in mine} & {each.key for each in others}
        lent.commit()
        rest = await drained(harness)
        assert sorted(ids([*mine, *others, *rest]), key=int) == [str(n) for n in range(64)]

    # -- retention --------------------------------------------------------------------------------

    async def test_old_events_go_once_every_group_has_read_them(self, harness: Harness) -> None:
        fence = await stored(harness, 4)
        await harness.events.follow("ledger", "billing")
        await harness.events.follow("ledger", "audit")
        await harness.advance(harness.ttl)
        await drained(harness)
        old, events = harness.ttl / 2, harness.events
        assert await events.trim(fence, old, 100 * harness.ttl, 10) == PrunedEvents(0)
        await drained(harness, "audit")
        await stored(harness, 1, first=4)
        assert await events.trim(None, old, 9e6, 10, dry_run=True) == PrunedEvents(4)
        assert await events.trim(fence, old, 9e6, 3) == PrunedEvents(3)
        assert await events.trim(None, old, 9e6, 10) == PrunedEvents(1)
        assert ids(await events.read("ledger")) == ["4"]

    async def test_very_old_events_go_unread(self, harness: Harness) -> None:
        fence = await stored(harness, 3)
        await harness.events.follow("ledger", "billing")
        await harness.advance(harness.ttl)
        old = harness.ttl / 2
        assert await harness.events.trim(fence, old, old, 10) == PrunedEvents(3, unread=3)
        assert await drained(harness) == []

    async def test_topic_without_groups_keeps_what_is_not_old(self, harness: Harness) -> None:
        fence = await stored(harness, 2)
        await harness.advance(harness.ttl)
        await stored(harness, 1, first=2)
        await harness.events.append([event("unsequenced")])
        gone = await harness.events.trim(fence, harness.ttl / 2, 9e6, 10)
        assert gone == PrunedEvents(2)
        assert ids(await harness.events.find()) == ["unsequenced", "2"]

    async def test_positions_and_numbers_go_on_after_pruning(self, harness: Harness) -> None:
        fence = await stored(harness, 3, keys=1)
        before = await harness.events.read("ledger")
        await harness.advance(harness.ttl)
        assert (await harness.events.trim(fence, harness.ttl / 2, 9e6, 10)).count == 3
        await stored(harness, 1, first=3, keys=1)
        [after] = await harness.events.read("ledger")
        assert after.position > before[-1].position
        assert after.key_number > before[-1].key_number

    async def test_former_leader_prunes_nothing(self, harness: Harness) -> None:
        former = await stored(harness, 1)
        await harness.in_office(2, "bob")
        await harness.advance(harness.ttl)
        with pytest.raises(Fenced):
            await harness.events.trim(former, harness.ttl / 2, 9e6, 10)
        assert len(await harness.events.read("ledger")) == 1


async def stored(harness: Harness, count: int, *, first: int = 0, keys: int = 0) -> Fence:
    fence = await harness.in_office()
    new = [event(str(n), f"key {n % keys}" if keys else None) for n in range(first, first + count)]
    assert await harness.events.append(new) == count
    await harness.sequenced(fence)
    return fence


async def drained(harness: Harness, group: str = "billing", limit: int = 100) -> list[LoggedEvent]:
    """All that the group has not read."""
    seen: list[LoggedEvent] = []
    while batch := await harness.events.consume("ledger", group, limit):
        seen += batch
    return seen
