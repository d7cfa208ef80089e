"""The reaper: buries only the dead, and only while it leads."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.backends.base import FREE_AFTER
from tenure.backends.memory import MemoryBackend
from tenure.facts import RunsRecovered
from tenure.model import (
    Change,
    Fence,
    Grant,
    Release,
    Result,
    RunRecord,
    RunState,
    ScheduleSpec,
)
from tenure.presence import PRESENCE
from tenure.reaper import PRUNE_EVERY, Reaper
from tenure.testing import FakeClock
from tests.unit.services import SETTINGS, faulty, holder, listening

FENCE = Fence("leader", 1, "ann")
TTL = SETTINGS.ttl


class World:
    """A leader's reaper, and nodes that have claimed runs."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backend = MemoryBackend(self.clock)
        self.leases: Any = faulty(self.backend.leases)
        self.runs: Any = faulty(self.backend.runs)
        self.leading: Fence | None = FENCE
        self.steady = float("inf")
        self.deposed: list[Fence] = []
        facts, self.told = listening()
        self.reaper = Reaper(
            holder("ann"),
            self.leases,
            self.runs,
            self.backend.releases,
            lambda: self.leading,
            self.deposed.append,
            SETTINGS,
            self.clock,
            facts,
            lambda: self.steady,
        )

    async def node(self, name: str) -> Grant:
        """A node that is present."""
        grant = await self.backend.leases.acquire(PRESENCE + name, holder(name), TTL)
        assert isinstance(grant, Grant)
        return grant

    async def claim(self, node: str, **options: Any) -> RunRecord:
        """A run of its own that this node has claimed."""
        spec = ScheduleSpec(f"of {node}", "{}", f"task of {node}", **options)
        await self.backend.schedules.change([Change(spec, None, None)])
        await self.backend.schedules.run_now(spec.name, "1")
        [run] = (await self.backend.runs.claim(node, [spec.task], 1)).runs
        return run

    async def state(self, run: RunRecord) -> RunState | None:
        found = await self.backend.runs.get(run.id)
        return None if found is None else found.state


@pytest.fixture
async def world() -> World:
    world = World()
    assert await world.backend.schedules.take_office(FENCE)
    return world


async def test_who_does_not_lead_asks_nothing(world: World) -> None:
    world.leading = None
    assert await world.reaper.step() is None
    assert not world.leases.calls
    assert not world.runs.calls


async def test_living_node_keeps_its_runs(world: World) -> None:
    grant, run = await world.node("alive"), await world.claim("alive")
    for _ in range(10):
        world.clock.advance(TTL / 2)
        assert await world.backend.leases.renew([grant]) == {grant}
        assert await world.reaper.step() == SETTINGS.reap_every
    assert await world.state(run) is RunState.CLAIMED


async def test_dead_nodes_runs_wait_again_and_are_told(world: World) -> None:
    await world.node("dead")
    alive = await world.node("alive")
    theirs, others = await world.claim("dead"), await world.claim("alive")
    world.clock.advance(TTL)
    await world.backend.leases.renew([alive])
    await world.reaper.step()
    assert await world.state(theirs) is RunState.WAITING
    assert await world.state(others) is RunState.CLAIMED
    assert world.told == [RunsRecovered("dead", rerun=1, lost=0)]


async def test_buried_node_cannot_come_back_under_its_name(world: World) -> None:
    grant = await world.node("dead")
    run = await world.claim("dead")
    world.clock.advance(TTL)
    await world.reaper.step()
    assert await world.backend.leases.renew([grant]) == set()
    late = Result(run.id, run.attempt, "dead", RunState.SUCCEEDED)
    assert await world.backend.runs.finish([late]) == [False]
    assert (await world.backend.leases.history(PRESENCE + "dead"))[0].end == "buried"


async def test_node_that_left_politely_but_kept_a_claim_is_buried(world: World) -> None:
    grant, run = await world.node("left"), await world.claim("left")
    await world.backend.leases.release(grant, "left")
    await world.reaper.step()
    assert await world.state(run) is RunState.WAITING


async def test_node_that_revives_before_the_burial_keeps_its_runs(world: World) -> None:
    """The store's own rules decide, at the moment of the burial."""
    grant, run = await world.node("slow"), await world.claim("slow")
    world.clock.advance(TTL)
    world.leases.before["acquire"] = lambda: world.backend.leases.renew([grant])
    await world.reaper.step()
    assert world.leases.calls["acquire"] == 1
    assert await world.state(run) is RunState.CLAIMED
    assert await world.backend.leases.renew([grant]) == {grant}
    assert world.told == []


async def test_expired_presence_is_no_death_while_the_store_was_away_for_all(world: World) -> None:
    """Whose own renewals were held up knows nothing against others: the living get a chance."""
    grant, run = await world.node("alive"), await world.claim("alive")
    await world.node("dead")
    lost = await world.claim("dead")
    world.clock.advance(TTL)
    world.steady = 0.0
    await world.reaper.step()
    assert await world.state(run) is RunState.CLAIMED
    assert await world.backend.leases.renew([grant]) == {grant}
    world.steady = SETTINGS.ttl
    await world.reaper.step()
    assert await world.state(run) is RunState.CLAIMED
    assert await world.state(lost) is RunState.WAITING


async def test_node_that_left_is_buried_even_after_an_outage(world: World) -> None:
    grant, run = await world.node("left"), await world.claim("left")
    await world.backend.leases.release(grant, "left")
    world.steady = 0.0
    await world.reaper.step()
    assert await world.state(run) is RunState.WAITING


async def test_node_whose_presence_was_forgotten_is_given_a_ttl(world: World) -> None:
    """The lease store lost everything: the node finds out at its next renewal."""
    run = await world.claim("forgotten")
    await world.reaper.step()
    world.clock.advance(TTL)
    await world.reaper.step()
    assert await world.state(run) is RunState.CLAIMED
    world.clock.advance(0.1)
    await world.reaper.step()
    assert await world.state(run) is RunState.WAITING


async def test_absence_counts_anew_after_leading_was_interrupted(world: World) -> None:
    run = await world.claim("forgotten")
    await world.reaper.step()
    world.leading = None
    await world.reaper.step()
    world.leading = FENCE
    world.clock.advance(TTL * 2)
    await world.reaper.step()
    assert await world.state(run) is RunState.CLAIMED


async def test_deposed_leader_buries_nobody(world: World) -> None:
    await world.node("dead")
    run = await world.claim("dead")
    world.clock.advance(TTL)
    assert await world.backend.schedules.take_office(Fence("leader", 2, "bob"))
    assert await world.reaper.step() is None
    assert world.deposed == [FENCE]
    assert await world.state(run) is RunState.CLAIMED


async def test_burial_that_failed_halfway_is_done_again(world: World) -> None:
    await world.node("dead")
    run = await world.claim("dead")
    world.clock.advance(TTL)
    world.runs.down.add("recover")
    await world.reaper.guarded_step()
    assert await world.state(run) is RunState.CLAIMED
    world.runs.down.clear()
    world.clock.advance(TTL)
    await world.reaper.guarded_step()
    assert await world.state(run) is RunState.WAITING


async def test_idle_reaper_asks_one_thing(world: World) -> None:
    await world.node("alive")
    for _ in range(5):
        await world.reaper.step()
    assert world.runs.calls == {"claimants": 5}
    assert not world.leases.calls


async def test_old_runs_and_presences_are_cleared_away(world: World) -> None:
    grant, run = await world.node("old"), await world.claim("old")
    await world.backend.runs.finish([Result(run.id, 1, "old", RunState.SUCCEEDED)])
    await world.backend.leases.release(grant)
    world.clock.advance(PRUNE_EVERY)
    await world.reaper.step()
    assert await world.state(run) is RunState.SUCCEEDED  # not old enough
    world.clock.advance(SETTINGS.retention)
    await world.reaper.step()
    assert await world.state(run) is None
    assert await world.backend.leases.all(PRESENCE) == []


async def test_presence_of_a_node_that_left_goes_after_minutes(world: World) -> None:
    """Each look at the nodes reads all of them, and restarts add up."""
    left, alive = await world.node("left"), await world.node("alive")
    await world.backend.leases.release(left, "left")
    for _ in range(7):
        world.clock.advance(PRUNE_EVERY)
        await world.backend.leases.renew([alive])
        await world.reaper.step()
    assert [x.name for x in await world.backend.leases.all(PRESENCE)] == [alive.name]
    [line] = await world.backend.leases.history(left.name)
    assert line.end == "left"


async def test_idle_node_that_died_is_not_still_held_in_the_history(world: World) -> None:
    grant = await world.node("dead")
    world.clock.advance(PRUNE_EVERY)
    await world.reaper.step()
    assert [(x.holder, x.end) for x in await world.backend.leases.history(grant.name)] == [
        ("ann", "buried"),
        ("dead", "expired"),
    ]
    assert await world.backend.leases.renew([grant]) == set()
    assert world.told == []


async def test_idle_node_that_lives_keeps_its_lease(world: World) -> None:
    """Nobody's lease is shortened: not that of a slow node, nor when all were cut off."""
    slow = await world.node("slow")
    world.clock.advance(PRUNE_EVERY)
    world.steady = 0.0
    await world.reaper.step()
    assert await world.backend.leases.renew([slow]) == {slow}
    world.steady = float("inf")
    world.clock.advance(PRUNE_EVERY)
    world.leases.before["acquire"] = lambda: world.backend.leases.renew([slow])
    await world.reaper.step()
    assert world.leases.calls["acquire"] == 1
    assert await world.backend.leases.renew([slow]) == {slow}


async def test_locks_that_nobody_uses_are_forgotten_too(world: World) -> None:
    for n in range(30):
        grant = await world.backend.leases.acquire(f"order {n}", holder("ann"), TTL)
        assert isinstance(grant, Grant)
        await world.backend.leases.release(grant)
    world.clock.advance(FREE_AFTER + PRUNE_EVERY)
    await world.reaper.step()
    assert await world.backend.leases.all() == []
    assert len(await world.backend.leases.history()) == 30


async def test_clearing_away_is_done_now_and_then(world: World) -> None:
    for _ in range(int(PRUNE_EVERY * 2 / SETTINGS.reap_every)):
        world.clock.advance(SETTINGS.reap_every)
        await world.reaper.step()
    assert world.runs.calls["prune"] == 2


async def test_releases_are_forgotten_that_are_old_and_that_no_node_has(world: World) -> None:
    releases = world.backend.releases
    for digest in ("old", "kept", "new"):
        await releases.announce("app", Release(digest, {}))
    world.clock.advance(SETTINGS.retention + PRUNE_EVERY)
    info = {"app": "app", "release": "kept"}
    await world.backend.leases.acquire(PRESENCE + "node", holder("node"), TTL, info=info)
    await world.reaper.step()
    left = (await releases.declared("app")).releases
    assert [release.digest for release in left] == ["kept", "new"]
