"""The summarizer: every end of a run is added once, whatever happens on the way."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tenure.errors import StoreUnavailable
from tenure.model import BUCKET, Advanced, Fence
from tenure.node.service import Surroundings
from tenure.node.summarizer import EVERY, PORTION, PRUNE_EVERY, Summarizer
from tests.unit.node.reaping import FENCE, World
from tests.unit.node.services import SETTINGS, Office, faulty, listening

LONG = 3_600.0


class Summarizing(World):
    """A leader's summarizer."""

    def __init__(self) -> None:
        super().__init__()
        facts, _ = listening()
        around = Surroundings(self.clock, facts, SETTINGS)
        self.summaries: Any = faulty(self.backend.summaries)
        self.summarizer = Summarizer(self.summaries, self.office, around)

    async def counted(self) -> int:
        buckets = await self.backend.summaries.buckets(LONG)
        return sum(sum(bucket.ended) for bucket in buckets)


async def summarizing(ended: int) -> Summarizing:
    world = Summarizing()
    assert await world.backend.office.take(FENCE) == FENCE
    await world.finished(ended)
    world.clock.advance(SETTINGS.ttl)
    return world


async def test_long_history_is_added_in_portions() -> None:
    world = await summarizing(PORTION + 1)
    assert await world.summarizer.step() != EVERY
    assert await world.counted() == PORTION
    assert await world.summarizer.step() == EVERY
    assert await world.counted() == PORTION + 1


async def test_portion_that_takes_too_long_is_halved_until_it_fits() -> None:
    world = await summarizing(PORTION)
    advance, tried = world.backend.summaries.advance, list[int]()

    async def slow(fence: Fence, limit: int, lag: float) -> Advanced:
        tried.append(limit)
        world.clock.advance(SETTINGS.call_timeout / 3)
        if limit > PORTION // 4:
            raise StoreUnavailable("canceling statement due to statement timeout")
        return await advance(fence, limit, lag)

    world.summaries._store = SimpleNamespace(advance=slow, prune=world.backend.summaries.prune)
    for _ in range(6):
        await world.summarizer.guarded_step()
    assert tried == [PORTION, PORTION // 2, *[PORTION // 4] * 4]
    assert await world.counted() == PORTION


async def test_run_whose_transaction_may_not_have_ended_waits() -> None:
    world = await summarizing(1)
    await world.finished(1, "just now")
    await world.summarizer.step()
    assert await world.counted() == 1


async def test_portion_whose_reply_was_lost_is_not_added_again() -> None:
    world = await summarizing(3)
    world.summaries.deaf.add("advance")
    await world.summarizer.guarded_step()
    assert world.summarizer.failing
    world.summaries.deaf.clear()
    await world.summarizer.guarded_step()
    assert await world.counted() == 3


async def test_leader_that_was_followed_adds_nothing_and_its_successor_goes_on() -> None:
    world = await summarizing(3)
    await world.summarizer.step()
    await world.finished(2, "later")
    world.clock.advance(SETTINGS.ttl)
    second = Fence(FENCE.scope, 2, "bob")
    assert await world.backend.office.take(second) == second
    assert await world.summarizer.step() is None
    assert world.office.refused == [FENCE]
    assert await world.counted() == 3
    world.office.leading = second
    await world.summarizer.step()
    assert await world.counted() == 5


async def test_node_that_does_not_lead_adds_nothing() -> None:
    world = await summarizing(1)
    world.office = Office()
    follower = Summarizer(
        world.summaries, world.office, Surroundings(world.clock, listening()[0], SETTINGS)
    )
    assert await follower.step() is None
    assert not world.summaries.calls


async def test_old_buckets_go() -> None:
    world = await summarizing(1)
    await world.summarizer.step()
    world.clock.advance(SETTINGS.retention + BUCKET + PRUNE_EVERY)
    await world.summarizer.step()
    assert await world.backend.summaries.buckets(10 * SETTINGS.retention) == []
