"""The reaper: buries only the dead, and only while it leads."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tenure.errors import StoreUnavailable
from tenure.facts import RunsRecovered
from tenure.model import (
    Fence,
    Recovered,
    Result,
    RunState,
)
from tenure.node.presence import PRESENCE
from tenure.testing.contract.harness import finish
from tests.unit.node.reaping import FENCE, TTL, World
from tests.unit.node.services import SETTINGS


@pytest.fixture
async def world() -> World:
    world = World()
    assert await world.backend.office.take(FENCE) == FENCE
    return world


async def test_who_does_not_lead_asks_nothing(world: World) -> None:
    world.office.leading = None
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
    assert await finish(world.backend, [late]) == [False]
    assert (await world.backend.leases.history(PRESENCE + "dead"))[0].end == "buried"


async def test_node_that_left_politely_but_kept_a_claim_is_buried(world: World) -> None:
    grant, run = await world.node("left"), await world.claim("left")
    await world.backend.leases.release(grant, "left")
    await world.reaper.step()
    assert await world.state(run) is RunState.WAITING


async def test_node_whose_run_cannot_be_taken_yet_is_buried_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's transaction has locked the run, and hangs: from then on only runs are asked for."""
    await world.node("dead")
    run = await world.claim("dead")

    async def nothing(*_: object) -> Recovered:
        return Recovered()

    monkeypatch.setattr(world.backend.runs, "recover", nothing)
    world.clock.advance(TTL)
    for _ in range(5):
        await world.reaper.step()
    tenures = await world.backend.leases.history(PRESENCE + "dead")
    assert [tenure.end for tenure in tenures] == ["buried", "expired"]
    assert world.leases.calls["acquire"] == 1
    monkeypatch.undo()
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
    world.office.steady = 0.0
    await world.reaper.step()
    assert await world.state(run) is RunState.CLAIMED
    assert await world.backend.leases.renew([grant]) == {grant}
    world.office.steady = SETTINGS.ttl
    await world.reaper.step()
    assert await world.state(run) is RunState.CLAIMED
    assert await world.state(lost) is RunState.WAITING


async def test_node_that_left_is_buried_even_after_an_outage(world: World) -> None:
    grant, run = await world.node("left"), await world.claim("left")
    await world.backend.leases.release(grant, "left")
    world.office.steady = 0.0
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
    world.office.leading = None
    await world.reaper.step()
    world.office.leading = FENCE
    world.clock.advance(TTL * 2)
    await world.reaper.step()
    assert await world.state(run) is RunState.CLAIMED


async def test_deposed_leader_buries_nobody(world: World) -> None:
    await world.node("dead")
    run = await world.claim("dead")
    world.clock.advance(TTL)
    successor = Fence("leader", 2, "bob")
    assert await world.backend.office.take(successor) == successor
    assert await world.reaper.step() is None
    assert world.office.refused == [FENCE]
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
