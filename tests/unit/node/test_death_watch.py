"""The reaper is woken when a node is proven dead, once, and without a query."""

from __future__ import annotations

from tenure.backends.memory import MemoryBackend
from tenure.model import Fence, LeaseRecord
from tenure.node.death_watch import DeathWatch
from tenure.node.presence import PRESENCE
from tenure.node.service import Surroundings
from tenure.testing import FakeClock
from tests.unit.node.services import SETTINGS, faulty, holder, listening


class Mandate:
    """A leader, or not."""

    def __init__(self) -> None:
        self.leading: Fence | None = Fence("leader", 1, "me")
        self.steady = 100.0

    def deposed(self, fence: Fence) -> None:
        raise AssertionError(fence)


class World:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backend = MemoryBackend(self.clock)
        self.leases = faulty(self.backend.leases)
        self.mandate = Mandate()
        self.presences: list[LeaseRecord] = []
        self.woken = 0
        facts, _ = listening()
        self.watch = DeathWatch(
            self.leases,
            self.mandate,
            lambda: self.presences,
            self._found,
            Surroundings(self.clock, facts, SETTINGS),
        )

    def _found(self) -> None:
        self.woken += 1

    async def join(self, name: str) -> None:
        await self.backend.leases.acquire(PRESENCE + name, holder(name), 10.0)
        self.presences = await self.backend.leases.all(PRESENCE)


async def test_dead_node_wakes_the_reaper_once() -> None:
    world = World()
    await world.join("ann")
    assert await world.watch.step() == 5 * SETTINGS.hint_every
    assert world.woken == 0

    world.leases.answers["suspect"] = True
    await world.watch.step()
    await world.watch.step()
    assert world.woken == 1
    await world.join("bob")
    await world.watch.step()
    assert world.woken == 2
    assert set(world.leases.calls) == {"suspect"}


async def test_only_a_leader_looks() -> None:
    world = World()
    await world.join("ann")
    world.mandate.leading = None
    assert await world.watch.step() is None
    assert not world.leases.calls


async def test_node_that_has_left_is_not_looked_at() -> None:
    world = World()
    await world.join("ann")
    await world.backend.leases.evict(PRESENCE + "ann", "left")
    world.presences = await world.backend.leases.all(PRESENCE)
    await world.watch.step()
    assert not world.leases.calls
