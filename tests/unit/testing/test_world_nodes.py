"""Nodes of a world that are frozen, killed and revived: what becomes of a user's runs."""

from __future__ import annotations

import asyncio

import pytest

from tenure import Run, Scheduler, every
from tenure.model import RunState
from tenure.testing import testing
from tenure.testing.world import World, WorldNode


def make() -> Scheduler:
    return Scheduler("postgresql://nobody@127.0.0.1:1/nowhere")


def leading(world: World) -> WorldNode:
    leader = world.leader
    assert leader is not None
    return leader


def test_a_killed_leader_is_replaced_within_a_second() -> None:
    scheduler = make()
    scheduler.task(every(seconds=10), name="sweep")(lambda: None)
    with testing(scheduler, nodes=3) as world:
        world.advance(minutes=1)
        leader = leading(world)
        leader.kill()
        assert leader.state == "dead"
        assert all(not node.leads for node in world.nodes if node is not leader)
        world.advance(seconds=1)
        assert leading(world) is not leader
        world.advance(seconds=59)
        assert world.ran("sweep") == 12
        assert {run.node for run in world.runs()[6:]}.isdisjoint({leader.name})


def test_a_frozen_leader_is_replaced_after_its_ttl() -> None:
    scheduler = make()
    scheduler.task(every(seconds=10), name="sweep", catch_up="all")(lambda: None)
    with testing(scheduler, nodes=2) as world:
        world.advance(minutes=2)
        leader = leading(world)
        leader.freeze()
        assert (leader.state, world.leader) == ("frozen", None)
        world.advance(seconds=8)
        assert all(not node.leads for node in world.nodes if node is not leader)
        world.advance(seconds=9)
        assert leading(world) is not leader
        world.advance(seconds=60)
        leader.revive()
        world.advance(minutes=1)
        assert [node.leads for node in world.nodes if node is leader] == [False]
        world.advance(seconds=43)
        assert [run.nominal.second for run in world.runs()] == [10, 20, 30, 40, 50, 0] * 5
        assert world.ran("sweep") == 30


@pytest.mark.parametrize("during", ["a coroutine", "a plain function"])
@pytest.mark.parametrize(("on_crash", "times"), [("rerun", 2), ("abandon", 1)])
@pytest.mark.parametrize("fate", ["kill", "freeze"])
def test_what_a_dead_node_was_doing_is_rerun_or_lost(
    during: str, on_crash: str, times: int, fate: str
) -> None:
    scheduler, began = make(), list[str]()

    @scheduler.task(every(hours=1), name="pay", on_crash=on_crash)
    def plain(run: Run) -> None:
        began.append(run.node)

    if during == "a coroutine":
        scheduler = make()

        @scheduler.task(every(hours=1), name="pay", on_crash=on_crash)
        async def coroutine(run: Run) -> None:
            began.append(run.node)
            await asyncio.sleep(30)

    with testing(scheduler, nodes=2) as world:
        if during == "a coroutine":
            world.advance(hours=1, seconds=10)
            getattr(world.node(began[0]), fate)()
        else:
            getattr(world, f"{fate}_during")("pay")
            world.advance(hours=1)
        world.advance(minutes=5)
        assert len(began) == times
        (run,) = world.runs("pay")
        assert run.state is (RunState.SUCCEEDED if times == 2 else RunState.LOST)
        victim = world.node(began[0])
        victim.revive()
        world.advance(minutes=5)
        assert len(set(began)) == len(began) == times
        assert [run] == world.runs("pay")  # what the frozen one brings is refused
        world.advance(hours=1)
        assert world.ran("pay") == times


def test_one_node_is_killed_and_comes_back() -> None:
    scheduler = make()
    scheduler.task(every(hours=1), name="sweep", catch_up="all", overlap="queue")(lambda: None)
    with testing(scheduler) as world:
        world.kill_during("sweep")
        world.advance(hours=3, minutes=30)
        assert world.ran("sweep") == 0
        assert scheduler.node is None
        world.node("a").revive()
        assert str(scheduler.node) == "a.2"
        world.advance(minutes=1)
        assert [run.attempt for run in world.runs("sweep")] == [2, 1, 1]
        assert world.ran("sweep") == 3


def test_nodes_say_what_they_are() -> None:
    scheduler = make()
    scheduler.task(name="x")(lambda: None)
    with testing(scheduler, nodes=2) as world:
        assert repr(world.nodes) == "[<node 'a': running, leads>, <node 'b': running>]"
