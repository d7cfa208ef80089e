"""Waiting to be told: register, look once more, sleep; and leave to others what is too much."""

from __future__ import annotations

from collections.abc import Callable

from tenure.node.waiting import Waiting
from tests.unit.node.working import World, forever


async def test_a_worker_registers_and_looks_once_more_before_it_sleeps() -> None:
    world = World()
    assert await world.step() == 0.0
    assert world.waits
    run_id = await world.add()  # committed after the first look, and told to nobody yet
    await world.step()
    assert [run.id for run in world.executed] == [run_id]
    await world.step()
    assert await world.step() == world.settings.idle_poll
    assert world.waits


async def test_a_worker_without_room_waits_on_until_it_is_told() -> None:
    """Most have room again soon."""
    world = World(concurrency=1)
    world.behave = forever
    await world.step()
    await world.add()
    await world.step()
    assert world.executed
    await world.step()
    assert world.waits
    world.worker.told()
    await world.step()
    assert not world.waits


async def test_a_worker_that_takes_all_it_can_leaves_the_rest_to_others() -> None:
    world = World(concurrency=2)
    world.behave = forever
    await world.step()
    for _ in range(3):
        await world.add()
    world.worker.told()
    await world.step()
    assert len(world.executed) == 2
    assert not world.waits


async def test_a_worker_that_was_told_of_less_than_it_can_take_waits_on() -> None:
    world = World(concurrency=2)
    await world.step()
    await world.add()
    world.worker.told()
    await world.step()
    assert len(world.executed) == 1
    assert world.waits


async def test_a_worker_that_may_not_claim_leaves_runs_to_others() -> None:
    world = World()
    await world.step()
    world.node = None
    world.worker.told()
    await world.step()
    assert not world.waits
    world.node = "node"
    await world.step()
    assert world.waits


async def test_a_worker_that_stops_does_not_wait() -> None:
    world = World()
    await world.step()
    await world.worker.stop(0.0)
    assert not world.waits


def test_waiting_begins_once_and_ends_once() -> None:
    said: list[str] = []

    def subscribe() -> Callable[[], None]:
        said.append("begun")
        return lambda: said.append("ended")

    waiting = Waiting(subscribe)
    waiting.end()
    assert waiting.begin()
    assert not waiting.begin()
    waiting.end()
    waiting.end()
    assert waiting.begin()
    assert said == ["begun", "ended", "begun"]
