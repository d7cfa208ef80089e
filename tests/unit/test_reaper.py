"""The reaper: buries only the dead, and only while it leads."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tenure.backends.base import FREE_AFTER, ReleaseStore
from tenure.backends.memory import MemoryBackend
from tenure.errors import StoreUnavailable
from tenure.facts import HistoryBehind, RunsRecovered
from tenure.model import (
    Change,
    Fence,
    Forgotten,
    Grant,
    Overlap,
    Recovered,
    Release,
    Result,
    RunRecord,
    RunState,
    ScheduleSpec,
)
from tenure.presence import PRESENCE
from tenure.reaper import PRUNE_BATCH, PRUNE_EVERY, PRUNE_FOR, Reaper
from tenure.testing import FakeClock
from tests.unit.services import SETTINGS, faulty, holder, listening, names

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
        self.trusted = True
        self.waited = 0.0
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
            store_now=self.backend.schedules.now,
            trusts=lambda store, boot: self.trusted,
        )

    async def node(self, name: str) -> Grant:
        """A node that is present."""
        grant = await self.backend.leases.acquire(PRESENCE + name, holder(name), TTL)
        assert isinstance(grant, Grant)
        return grant

    async def claim(self, node: str, name: str | None = None, **options: Any) -> RunRecord:
        """A run of its own that this node has claimed."""
        spec = ScheduleSpec(name or f"of {node}", "{}", f"task of {node}", **options)
        await self.backend.schedules.change([Change(spec, None, None)])
        await self.backend.schedules.run_now(spec.name, "1")
        [run] = (await self.backend.runs.claim(node, [spec.task], 1)).runs
        return run

    async def step(self, *, guarded: bool = False) -> float | None:
        """A step, and time that passes while it waits."""
        step = asyncio.create_task(self.reaper.guarded_step() if guarded else self.reaper.step())
        while True:
            await self.clock.settle()
            if step.done():
                return await step
            self.clock.advance(0.05)
            self.waited += 0.05

    async def finished(self, count: int, name: str = "done") -> list[RunRecord]:
        """Runs that have just succeeded."""
        spec = ScheduleSpec(name, "{}", name, overlap=Overlap.ALLOW)
        await self.backend.schedules.change([Change(spec, None, None)])
        for number in range(count):
            await self.backend.schedules.run_now(name, str(number))
        runs = (await self.backend.runs.claim("x", [name], count)).runs
        done = [Result(run.id, run.claim, "x", RunState.SUCCEEDED) for run in runs]
        assert all(await self.backend.runs.finish(done))
        return runs

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


async def test_burial_that_failed_halfway_goes_on_with_the_next_step(world: World) -> None:
    """The reaper has the dead node's presence by then. It does not wait for itself to expire."""
    await world.node("dead")
    run = await world.claim("dead")
    world.clock.advance(TTL)
    world.runs.down.add("recover")
    await world.reaper.guarded_step()
    world.runs.down.clear()
    await world.reaper.guarded_step()
    assert await world.state(run) is RunState.WAITING
    presence = await world.backend.leases.read(PRESENCE + "dead")
    assert presence is not None
    assert presence.holder is None


async def test_reaper_does_not_bury_its_own_node(world: World) -> None:
    await world.node("ann")
    run = await world.claim("ann")
    await world.step()
    assert await world.state(run) is RunState.CLAIMED


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


async def test_nothing_is_removed_while_the_clock_is_in_doubt(world: World) -> None:
    [run] = await world.finished(1)
    grant = await world.node("gone")
    await world.backend.leases.release(grant)
    world.trusted = False
    world.clock.advance(SETTINGS.retention + PRUNE_EVERY)
    for _ in range(3):
        await world.reaper.step()
    assert await world.state(run) is RunState.SUCCEEDED
    assert world.runs.calls["prune"] == 0
    assert len(await world.backend.leases.all(PRESENCE)) == 1
    world.trusted = True
    await world.reaper.step()
    assert await world.state(run) is None
    assert await world.backend.leases.all(PRESENCE) == []


async def test_doubt_that_comes_up_between_two_batches_ends_it(world: World) -> None:
    await world.finished(3 * PRUNE_BATCH)
    world.clock.advance(SETTINGS.retention + PRUNE_EVERY)

    def jump() -> None:
        world.trusted = False

    world.runs.after["prune"] = jump
    await world.reaper.step()
    assert world.runs.calls["prune"] == 1
    assert len(await world.backend.runs.all(limit=9_999)) == 2 * PRUNE_BATCH


async def test_all_that_is_too_old_is_removed_in_one_go(world: World) -> None:
    await world.finished(4 * PRUNE_BATCH + 1)
    world.clock.advance(SETTINGS.retention + PRUNE_EVERY)
    assert await world.reaper.step() == SETTINGS.reap_every
    assert await world.backend.runs.all() == []
    assert "history.behind" not in names(world.told)


async def test_removing_history_leaves_time_for_the_dead_and_for_others(world: World) -> None:
    """A batch takes a tenth of a second: others have the store as long, and then it is enough."""
    await world.finished(20 * PRUNE_BATCH)
    world.clock.advance(SETTINGS.retention + PRUNE_EVERY)
    world.runs.after["prune"] = lambda: world.clock.advance(0.1)
    assert await world.step() == 0.0
    assert world.runs.calls["prune"] == PRUNE_FOR / 0.2
    assert world.waited == pytest.approx(PRUNE_FOR / 2)
    assert world.runs.calls["claimants"] == 1


async def test_retention_that_falls_behind_says_how_far(world: World) -> None:
    await world.finished(20 * PRUNE_BATCH)
    world.clock.advance(SETTINGS.retention + 600.0)
    world.runs.after["prune"] = lambda: world.clock.advance(2 * PRUNE_FOR)
    for _ in range(2):
        assert await world.step() == 0.0
    assert "history.behind" not in names(world.told)  # it has only been seen once
    world.clock.advance(PRUNE_EVERY)
    await world.step()
    [fact] = [fact for fact in world.told if isinstance(fact, HistoryBehind)]
    assert fact.seconds == pytest.approx(600.0 + PRUNE_EVERY + 3 * 4 * PRUNE_FOR)


async def test_retention_that_is_behind_does_not_keep_the_rest_from_its_turn(world: World) -> None:
    """There are more runs to remove than there is time for, at every step."""
    await world.node("idle")
    world.clock.advance(PRUNE_EVERY)
    runs = world.backend.runs

    async def endless(fence: Fence, older_than: float, limit: int) -> int:
        world.clock.advance(PRUNE_FOR)
        return limit

    world.runs._store = SimpleNamespace(
        claimants=runs.claimants, prune=endless, oldest=runs.oldest, recover=runs.recover
    )
    assert await world.step() == 0.0
    presence = await world.backend.leases.read(PRESENCE + "idle")
    assert presence is not None
    assert presence.holder is None


async def test_retention_that_catches_up_is_not_behind(world: World) -> None:
    await world.finished(2 * PRUNE_BATCH)
    world.clock.advance(300.0)
    await world.finished(3 * PRUNE_BATCH, "later")
    world.clock.advance(SETTINGS.retention + PRUNE_EVERY)
    world.runs.after["prune"] = lambda: world.clock.advance(2 * PRUNE_FOR)
    for _ in range(4):
        await world.step()
        world.clock.advance(PRUNE_EVERY / 2)
    assert "history.behind" not in names(world.told)


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


async def test_many_leases_on_a_slow_store_do_not_keep_the_rest_from_its_turn(
    world: World,
) -> None:
    """Each call is in time, all of them together are not."""
    released: list[float] = []
    forget, prune = world.backend.leases.forget, world.backend.releases.prune

    async def slow(*args: Any, **kwargs: Any) -> Forgotten:
        await asyncio.sleep(seconds := 0.4 * world.reaper._settings.call_timeout)
        world.clock.advance(seconds)
        return replace(await forget(*args, **kwargs), after="more")

    async def pruned(fence: Fence, older_than: float, keep: Any) -> int:
        released.append(older_than)
        return await prune(fence, older_than, keep)

    world.reaper._settings = replace(SETTINGS, ttl=1.0, heartbeat=0.2, margin=0.05)
    world.leases._store = SimpleNamespace(
        all=world.backend.leases.all,
        forget=slow,
        forget_history=world.backend.leases.forget_history,
    )
    world.reaper._releases = cast("ReleaseStore", SimpleNamespace(prune=pruned))
    world.clock.advance(PRUNE_EVERY)
    await world.reaper.step()
    assert len(released) == 1


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


# -- what does not fit into one transaction -------------------------------------------------------


async def test_runs_that_do_not_fit_are_recovered_in_portions(world: World) -> None:
    """A store that ends a transaction which takes more than seven of them."""
    for number in range(30):
        await world.claim("dead", name=f"s{number}")
    tried: list[int] = []
    recover = world.backend.runs.recover

    async def slow(fence: Fence, node: str, max_crashes: int, limit: int) -> Recovered:
        tried.append(limit)
        if min(limit, len(await world.backend.runs.claimed(node))) > 7:
            world.clock.advance(SETTINGS.call_timeout)
            raise StoreUnavailable("canceling statement due to statement timeout")
        world.clock.advance(SETTINGS.call_timeout / 3)
        return await recover(fence, node, max_crashes, limit)

    world.runs._store = SimpleNamespace(claimants=world.backend.runs.claimants, recover=slow)
    for _ in range(20):
        await world.reaper.guarded_step()
        world.clock.advance(TTL)
    assert await world.backend.runs.claimants() == []
    assert tried[-1] == 7
    assert sum(fact.rerun for fact in world.told if isinstance(fact, RunsRecovered)) == 30


async def test_what_is_old_and_does_not_fit_is_pruned_in_portions(world: World) -> None:
    tried: list[int] = []

    async def slow(fence: Fence, older_than: float, limit: int) -> int:
        tried.append(limit)
        if limit > 100:
            world.clock.advance(SETTINGS.call_timeout)
            raise StoreUnavailable("canceling statement due to statement timeout")
        world.clock.advance(SETTINGS.call_timeout / 3)
        return limit if len(tried) < 10 else 0

    runs = world.backend.runs
    world.runs._store = SimpleNamespace(claimants=runs.claimants, prune=slow, oldest=runs.oldest)
    world.clock.advance(PRUNE_EVERY)
    for _ in range(12):
        await world.step(guarded=True)
        world.clock.advance(1)
    assert tried == [500, 250, 125, 62, 62, 62, 62, 62, 62, 62]
