"""Runs that were told to end and go on are told of once, and the presence says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tenure.facts import Fact, NodeReady, NodeUnready, RunHung
from tenure.node.hung_runs import DESCRIBED, HUNG_AFTER, HungRuns
from tenure.node.service import Surroundings
from tenure.tasks.run import Run
from tenure.testing import FakeClock
from tests.unit.node.services import SETTINGS, listening


class World:
    def __init__(self, concurrency: int = 3) -> None:
        self.clock = FakeClock()
        facts, self.told = listening()
        self.said: list[Mapping[str, Any]] = []
        settings = replace(SETTINGS, concurrency=concurrency)
        self.hung = HungRuns(self.said.append, Surroundings(self.clock, facts, settings))

    def facts(self, kind: type[Fact]) -> list[Fact]:
        return [fact for fact in self.told if isinstance(fact, kind)]


@pytest.fixture
def world() -> World:
    return World()


def a_run(number: int = 1, stack: str | None = "in the middle of it") -> Run:
    run = Run(
        id=number,
        schedule="s",
        task="job",
        nominal=datetime(2026, 1, 1, tzinfo=UTC),
        attempt=2,
        term=1,
        node="node",
        kwargs={},
        claim=7,
    )
    run.stack = None if stack is None else lambda: stack
    return run


async def test_run_past_its_timeout_is_told_of_once_and_described(world: World) -> None:
    world.hung.begun(a_run(), 5.0)
    assert await world.hung.step() == 5.0 + HUNG_AFTER
    assert world.said == []
    world.clock.advance(5.0 + HUNG_AFTER)
    assert await world.hung.step() is None
    await world.hung.step()

    (fact,) = world.facts(RunHung)
    assert isinstance(fact, RunHung)
    assert (fact.run, fact.attempt, fact.stack) == (1, 2, "in the middle of it")
    (said,) = world.said
    assert (said["hung"], said["ready"]) == (1, True)
    (described,) = said["hung_runs"]
    assert described == {
        "run": 1,
        "claim": 7,
        "task": "job",
        "since": world.clock.now().isoformat(),
        "stack": "in the middle of it",
    }


async def test_run_that_ends_in_time_is_not_hung(world: World) -> None:
    world.hung.begun(a_run(), 5.0)
    world.hung.ended((1, 7))
    world.clock.advance(60)
    assert await world.hung.step() is None
    assert (world.told, world.said) == ([], [])


async def test_run_without_a_timeout_is_hung_only_once_it_was_told_to_end(world: World) -> None:
    run = a_run()
    world.hung.begun(run, None)
    world.clock.advance(3_600)
    assert await world.hung.step() is None
    assert not world.told

    world.hung.told(run)
    assert await world.hung.step() == HUNG_AFTER
    world.clock.advance(HUNG_AFTER)
    await world.hung.step()
    assert len(world.facts(RunHung)) == 1
    world.hung.told(run)  # its node stops
    world.clock.advance(HUNG_AFTER)
    await world.hung.step()
    assert len(world.facts(RunHung)) == 1


async def test_run_that_has_not_begun_is_not_hung(world: World) -> None:
    world.hung.begun(a_run(stack=None), 1.0)
    world.clock.advance(60)
    await world.hung.step()
    assert not world.told


async def test_run_that_begins_late_is_hung_once_it_has_had_its_time(world: World) -> None:
    run = a_run(stack=None)
    world.hung.begun(run, 5.0)
    world.clock.advance(5.0 + HUNG_AFTER)
    assert await world.hung.step() == HUNG_AFTER
    run.stack = lambda: "begun late"
    world.clock.advance(HUNG_AFTER)
    assert await world.hung.step() == 5.0 + HUNG_AFTER
    assert not world.told
    world.clock.advance(5.0 + HUNG_AFTER)
    await world.hung.step()
    assert len(world.facts(RunHung)) == 1


async def test_run_that_was_told_to_end_before_it_began_is_hung_if_it_goes_on(world: World) -> None:
    run = a_run(stack=None)
    world.hung.told(run)
    run.cancelled = True
    world.clock.advance(HUNG_AFTER)
    assert await world.hung.step() == HUNG_AFTER
    run.stack = lambda: "begun late"
    world.clock.advance(HUNG_AFTER)
    await world.hung.step()
    assert len(world.facts(RunHung)) == 1


async def test_shorter_timeout_wakes_it_and_a_longer_one_does_not(world: World) -> None:
    world.hung.begun(a_run(1), 10.0)
    await world.hung.step()
    world.hung._awake.clear()
    world.hung.begun(a_run(2), 20.0)
    assert not world.hung._awake.is_set()
    world.hung.begun(a_run(3), 2.0)
    assert world.hung._awake.is_set()
    assert await world.hung.step() == 2.0 + HUNG_AFTER


async def test_node_whose_slots_are_all_hung_is_unready_until_one_ends() -> None:
    world = World(concurrency=2)
    for number in (1, 2):
        world.hung.begun(a_run(number), 1.0)
    world.clock.advance(1.0 + HUNG_AFTER)
    await world.hung.step()
    assert [world.hung.ready] == [False]
    assert world.facts(NodeUnready) == [NodeUnready(2, 2)]
    assert world.said[-1]["ready"] is False

    world.hung.ended((1, 7))
    await world.hung.step()
    assert [world.hung.ready] == [True]
    assert world.facts(NodeReady) == [NodeReady(2, 1)]
    world.hung.ended((2, 7))
    await world.hung.step()
    assert world.said[-1] == {}


async def test_presence_describes_a_few_and_counts_all() -> None:
    world = World(concurrency=1_000)
    for number in range(100):
        world.hung.begun(a_run(number), 1.0)
    world.clock.advance(1.0 + HUNG_AFTER)
    await world.hung.step()
    assert world.said[-1]["hung"] == 100
    assert len(world.said[-1]["hung_runs"]) == DESCRIBED


async def test_those_that_a_stopping_node_leaves_behind_are_told_of_at_once(world: World) -> None:
    known, unknown = a_run(1), a_run(2)
    world.hung.told(known)
    world.clock.advance(HUNG_AFTER)
    await world.hung.step()
    world.hung.left_behind([known, unknown, a_run(3, stack=None)])
    assert [fact.run for fact in world.told if isinstance(fact, RunHung)] == [1, 2]
