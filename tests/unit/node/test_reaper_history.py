"""The reaper removes what is old: runs, occurrences, leases, editions."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tenure.backends.base import FREE_AFTER, UNREAD_KEPT, AuditStore, EditionStore
from tenure.errors import StoreUnavailable
from tenure.facts import EventsDropped, HistoryBehind
from tenure.model import (
    Content,
    Edition,
    Fence,
    Forgotten,
    Grant,
    NewEvent,
    Pruned,
    Result,
    RunState,
)
from tenure.node.presence import PRESENCE
from tenure.node.reaper import PRUNE_BATCH, PRUNE_EVERY, PRUNE_FOR
from tenure.testing.contract.harness import finish
from tenure.testing.simulation.loop import SimulationLoop
from tests.unit.node.reaping import FENCE, TTL, World
from tests.unit.node.services import SETTINGS, holder, names


@pytest.fixture
async def world() -> World:
    world = World()
    assert await world.backend.office.take(FENCE) == FENCE
    return world


async def test_old_runs_and_presences_are_cleared_away(world: World) -> None:
    grant, run = await world.node("old"), await world.claim("old")
    await finish(world.backend, [Result(run.id, 1, "old", RunState.SUCCEEDED)])
    await world.backend.leases.release(grant)
    world.clock.advance(PRUNE_EVERY)
    await world.reaper.step()
    assert await world.state(run) is RunState.SUCCEEDED  # not old enough
    world.clock.advance(SETTINGS.retention)
    await world.reaper.step()
    assert await world.state(run) is None
    assert await world.backend.leases.all(PRESENCE) == []


async def test_events_stay_until_all_have_read_them_or_an_alarm_is_raised(world: World) -> None:
    events, day = world.backend.events, 86_400.0
    content = Content("ledger", "Said", "1", "a")
    await events.append([NewEvent("read", content)])
    await events.sequence(FENCE)
    await events.follow("ledger", "billing")
    assert len(await events.consume("ledger", "billing")) == 1
    await events.append([NewEvent("unread", content)])
    await events.sequence(FENCE)

    async def kept_after(days: float) -> list[str]:
        world.clock.advance(days * day)
        for _ in range(2):  # runs first, the rest with the next step
            await world.step()
        return [event.id for event in await events.find()]

    assert await kept_after(6) == ["unread", "read"]
    assert await kept_after(2) == ["unread"]
    assert await kept_after(19) == ["unread"]
    assert "events.dropped" not in names(world.told)
    assert await kept_after(2) == []
    [fact] = [fact for fact in world.told if isinstance(fact, EventsDropped)]
    assert (fact.count, fact.older_than, fact.level) == (1, UNREAD_KEPT, logging.ERROR)


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
    assert len(await world.backend.runs.find(limit=9_999)) == 2 * PRUNE_BATCH


async def test_all_that_is_too_old_is_removed_in_one_go(world: World) -> None:
    await world.finished(4 * PRUNE_BATCH + 1)
    world.clock.advance(SETTINGS.retention + PRUNE_EVERY)
    assert await world.reaper.step() == SETTINGS.reap_every
    assert await world.backend.runs.find() == []
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

    async def endless(fence: Fence, older_than: float, limit: int) -> Pruned:
        world.clock.advance(PRUNE_FOR)
        return Pruned(limit)

    world.runs._store = SimpleNamespace(
        claimants=runs.claimants, prune=endless, recover=runs.recover
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
    world.office.steady = 0.0
    await world.reaper.step()
    assert await world.backend.leases.renew([slow]) == {slow}
    world.office.steady = float("inf")
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


def test_many_leases_on_a_slow_store_do_not_keep_the_rest_from_its_turn() -> None:
    """Each call is in time, all of them together are not. In virtual time: timeouts too."""
    loop = SimulationLoop()
    released = loop.run_until_complete(_many_leases_on_a_slow_store())
    loop.close()
    assert len(released) == 1


async def _many_leases_on_a_slow_store() -> list[float]:
    world = World()
    assert await world.backend.office.take(FENCE) == FENCE
    released: list[float] = []
    forget, prune = world.backend.leases.forget, world.backend.editions.prune

    async def slow(*args: Any, **kwargs: Any) -> Forgotten:
        await asyncio.sleep(seconds := 0.4 * world.reaper.settings.call_timeout)
        world.clock.advance(seconds)
        return replace(await forget(*args, **kwargs), after="more")

    async def pruned(fence: Fence, older_than: float, keep: Any) -> int:
        released.append(older_than)
        return await prune(fence, older_than, keep)

    world.reaper.settings = replace(SETTINGS, ttl=1.0, heartbeat=0.2, margin=0.05)
    world.leases._store = SimpleNamespace(
        all=world.backend.leases.all,
        forget=slow,
    )
    world.reaper._editions = cast("EditionStore", SimpleNamespace(prune=pruned))
    world.clock.advance(PRUNE_EVERY)
    await world.reaper.step()
    return released


async def test_clearing_away_is_done_now_and_then(world: World) -> None:
    for _ in range(int(PRUNE_EVERY * 2 / SETTINGS.reap_every)):
        world.clock.advance(SETTINGS.reap_every)
        await world.reaper.step()
    assert world.runs.calls["prune"] == 2


async def test_releases_are_forgotten_that_are_old_and_that_no_node_has(world: World) -> None:
    editions = world.backend.editions
    for digest in ("old", "kept", "new"):
        await editions.announce("app", Edition(digest, {}))
    world.clock.advance(SETTINGS.retention + PRUNE_EVERY)
    info = {"app": "app", "edition": "kept"}
    await world.backend.leases.acquire(PRESENCE + "node", holder("node"), TTL, info=info)
    await world.reaper.step()
    left = (await editions.declared("app")).editions
    assert [edition.digest for edition in left] == ["kept", "new"]


async def test_what_is_old_and_does_not_fit_is_pruned_in_portions(world: World) -> None:
    tried: list[int] = []

    async def slow(fence: Fence, older_than: float, limit: int) -> Pruned:
        tried.append(limit)
        if limit > 100:
            world.clock.advance(SETTINGS.call_timeout)
            raise StoreUnavailable("canceling statement due to statement timeout")
        world.clock.advance(SETTINGS.call_timeout / 3)
        return Pruned(limit if len(tried) < 10 else 0)

    runs = world.backend.runs
    world.runs._store = SimpleNamespace(claimants=runs.claimants, prune=slow)
    world.clock.advance(PRUNE_EVERY)
    for _ in range(12):
        await world.step(guarded=True)
        world.clock.advance(1)
    assert tried == [500, 250, 125, 62, 62, 62, 62, 62, 62, 62]


async def test_audit_that_is_old_and_does_not_fit_is_pruned_in_portions(world: World) -> None:
    tried: list[int] = []

    async def slow(fence: Fence, older_than: float, limit: int) -> int:
        tried.append(limit)
        world.clock.advance(SETTINGS.call_timeout / 3)
        if limit > 200:
            raise StoreUnavailable("canceling statement due to statement timeout")
        return 0

    world.reaper._audit = cast("AuditStore", SimpleNamespace(prune=slow))
    for _ in range(5):
        world.clock.advance(PRUNE_EVERY)
        await world.step(guarded=True)
    assert tried == [500, 250, 125, 125, 125]
