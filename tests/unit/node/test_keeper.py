"""The keeper: trust ends before the store's does, suspended is not lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.backends.memory import MemoryBackend
from tenure.errors import StoreUnavailable
from tenure.model import Grant
from tenure.node.keeper import Held, Keeper
from tenure.node.service import Surroundings
from tenure.testing import FakeClock
from tests.unit.node.services import SETTINGS, faulty, held, holder, listening, names

TTL, HEARTBEAT, MARGIN = 10.0, 2.0, 0.5


class World:
    """A keeper with one lease, on a store that fails on demand."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryBackend(self.clock).leases
        self.leases: Any = faulty(self.store)
        facts, self.told = listening()
        self.keeper = Keeper(self.leases, Surroundings(self.clock, facts, SETTINGS))
        self.changes = 0

    async def hold(self, name: str = "job") -> Held:
        lease = await held(self.leases, self.clock, name)
        lease.changed = self._changed
        return self.keeper.keep(lease)

    def _changed(self) -> None:
        self.changes += 1

    async def live(self, name: str = "job") -> bool:
        record = await self.store.read(name)
        return record is not None and record.live


@pytest.fixture
def world() -> World:
    return World()


async def test_deadline_counts_from_the_start_of_the_attempt(world: World) -> None:
    world.leases.after["acquire"] = lambda: world.clock.advance(3.0)
    begun = world.clock.monotonic()
    lease = await world.hold()
    assert lease.deadline == begun + TTL - MARGIN
    world.leases.before["renew"] = lambda: world.clock.advance(1.0)
    world.leases.after["renew"] = lambda: world.clock.advance(3.0)
    begun = world.clock.monotonic()
    await world.keeper.step()
    assert world.leases.calls["renew"] == 1
    assert lease.deadline == begun + TTL - MARGIN


async def test_trust_ends_a_margin_before_the_store_gives_it_away(world: World) -> None:
    lease = await world.hold()
    world.clock.advance(TTL - MARGIN - 0.01)
    assert (lease.trusted, round(lease.remaining, 6)) == (True, 0.01)
    world.clock.advance(0.01)
    assert (lease.trusted, lease.remaining) == (False, 0.0)
    assert await world.live()


async def test_nothing_is_asked_before_the_heartbeat(world: World) -> None:
    await world.hold()
    world.clock.advance(HEARTBEAT - 0.5)
    assert await world.keeper.step() == pytest.approx(0.5)
    assert world.leases.calls["renew"] == 0


async def test_all_leases_are_renewed_in_one_call(world: World) -> None:
    leases = [await world.hold(f"job {i}") for i in range(5)]
    world.clock.advance(HEARTBEAT)
    assert await world.keeper.step() == pytest.approx(HEARTBEAT)
    assert world.leases.calls["renew"] == 1
    assert {lease.remaining for lease in leases} == {TTL - MARGIN}


async def test_keeper_without_leases_sleeps_until_it_is_woken(world: World) -> None:
    assert await world.keeper.step() is None
    assert world.leases.calls["renew"] == 0


async def test_failed_renewal_within_the_deadline_changes_nothing(world: World) -> None:
    lease = await world.hold()
    world.leases.down.add("renew")
    world.clock.advance(HEARTBEAT)
    delay = await world.keeper.guarded_step()
    assert delay is not None
    assert delay < HEARTBEAT
    assert lease.trusted
    assert names(world.told) == ["lease.acquired", "store.unavailable"]


async def test_steady_says_for_how_long_renewals_came_without_a_gap(world: World) -> None:
    lease = await world.hold()
    for _ in range(3):
        world.clock.advance(HEARTBEAT)
        await world.keeper.step()
    assert lease.steady == 3 * HEARTBEAT
    world.leases.down.add("renew")
    world.clock.advance(2 * HEARTBEAT)
    await world.keeper.guarded_step()
    assert lease.trusted
    assert lease.steady == 0  # overdue
    world.leases.down.clear()
    await world.keeper.step()
    assert lease.steady == 0  # it begins anew
    world.clock.advance(HEARTBEAT)
    assert lease.steady == HEARTBEAT


async def test_suspended_then_restored(world: World) -> None:
    lease = await world.hold()
    world.leases.down.add("renew")
    world.clock.advance(TTL * 2)
    await world.keeper.guarded_step()
    assert (lease.trusted, lease.suspended, lease.over) == (False, True, None)
    assert world.changes == 1
    await world.keeper.guarded_step()
    assert names(world.told).count("lease.suspended") == 1  # told once
    world.leases.down.clear()
    await world.keeper.guarded_step()
    assert (lease.trusted, lease.suspended, lease.over) == (True, False, None)
    assert world.changes == 2
    assert names(world.told)[-2:] == ["lease.restored", "store.recovered"]


async def test_suspended_then_lost(world: World) -> None:
    lease = await world.hold()
    world.leases.down.add("renew")
    world.clock.advance(TTL * 2)
    await world.keeper.guarded_step()
    assert isinstance(await world.store.acquire("job", holder("bob"), TTL), Grant)
    world.leases.down.clear()
    await world.keeper.guarded_step()
    assert (lease.trusted, lease.over) == (False, "lost")
    assert world.keeper.held == []
    assert world.changes == 2
    assert "lease.lost" in names(world.told)
    assert "lease.restored" not in names(world.told)


async def test_evicted_lease_is_lost_at_the_next_renewal(world: World) -> None:
    lease = await world.hold()
    kept = await world.hold("other")
    await world.store.evict("job", "by the operator")
    world.clock.advance(HEARTBEAT)
    await world.keeper.step()
    assert lease.over == "lost"
    assert kept.trusted
    assert world.keeper.held == [kept]


async def test_reply_that_comes_after_the_deadline_does_not_bring_trust_back(world: World) -> None:
    lease = await world.hold()
    world.clock.advance(HEARTBEAT)
    world.leases.after["renew"] = lambda: world.clock.advance(TTL)
    await world.keeper.step()
    assert (lease.trusted, lease.suspended, lease.over) == (False, True, None)


async def test_lease_released_during_a_renewal_stays_over(world: World) -> None:
    lease = await world.hold()
    world.clock.advance(HEARTBEAT)
    world.leases.after["renew"] = lambda: world.keeper.release(lease)
    await world.keeper.step()
    assert lease.over == "released"
    assert world.keeper.held == []
    assert not await world.live()
    assert "lease.lost" not in names(world.told)


async def test_release_is_over_at_once_whatever_the_store_says(world: World) -> None:
    lease = await world.hold()
    world.leases.down.add("release")
    with pytest.raises(StoreUnavailable):
        await world.keeper.release(lease)
    assert (lease.over, lease.trusted) == ("released", False)
    world.clock.advance(HEARTBEAT)
    await world.keeper.step()
    assert world.leases.calls["renew"] == 0


async def test_step_wakes_for_the_deadline_of_what_cannot_be_renewed(world: World) -> None:
    lease = await world.hold()
    lease.renew_at = lease.deadline + 100
    assert await world.keeper.step() == pytest.approx(TTL - MARGIN)


async def test_running_keeper_renews_by_itself(world: World) -> None:
    lease = await world.hold()
    world.keeper.start()
    for _ in range(30):
        await world.clock.settle()
        world.clock.advance(HEARTBEAT)
    await world.clock.settle()
    assert lease.trusted
    assert world.leases.calls["renew"] == 30
    await world.keeper.halt()


delays = st.floats(0, 8)
steps = st.lists(
    st.tuples(delays, delays, st.floats(0, 6), st.sampled_from(["", "down", "deaf"])), max_size=15
)


@given(steps)
async def test_trusted_lease_is_live_in_the_store(
    steps: list[tuple[float, float, float, str]],
) -> None:
    """Whatever the network does to calls and replies, trust never outlives the store's."""
    world = World()
    lease = await world.hold()
    for before, after, pause, fault in steps:
        world.clock.advance(pause)
        world.leases.before["renew"] = lambda before=before: world.clock.advance(before)
        world.leases.after["renew"] = lambda after=after: world.clock.advance(after)
        world.leases.down = {"renew"} if fault == "down" else set()
        world.leases.deaf = {"renew"} if fault == "deaf" else set()
        await world.keeper.guarded_step()
        if lease.trusted:
            assert await world.live()
