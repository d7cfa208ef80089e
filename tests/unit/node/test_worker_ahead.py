"""Claiming more than there is room for: where runs are short, and never at the cost of others."""

from __future__ import annotations

import pytest

from tenure.model import (
    Change,
    OnCrash,
    Overlap,
    Result,
    RunState,
    ScheduleSpec,
)
from tenure.node.claim_ahead import AHEAD, AHEAD_FOR, SHORT
from tenure.tasks.run import Run
from tenure.testing.contract.harness import finish
from tests.unit.node.services import names
from tests.unit.node.working import FENCE, World, forever


@pytest.fixture
def world() -> World:
    return World()


async def test_short_runs_are_claimed_ahead_of_their_slots() -> None:
    """Each claim takes as many more as have just ended; never more are executed at a time."""
    world, most = World(concurrency=2), 0

    async def watch(run: Run) -> None:
        nonlocal most
        most = max(most, len(world.worker.running))

    world.behave = watch
    for _ in range(14):
        await world.add()
    claimed = []
    for _ in range(4):
        await world.step()
        claimed.append(len(world.executed))
    assert claimed == [2, 6, 12, 14]
    assert most == 2
    await world.step()
    assert {run.state for run in await world.backend.runs.find(limit=99)} == {RunState.SUCCEEDED}


async def test_a_claim_takes_only_so_many_times_its_slots_ahead() -> None:
    world = World(concurrency=2)
    for _ in range(120):
        await world.add()
    claimed, before = [], 0
    while len(world.executed) < 120:
        await world.step()
        claimed.append(len(world.executed) - before)
        before = len(world.executed)
    assert claimed[:4] == [2, 4, 6, 8]
    assert max(claimed) == 2 + AHEAD * 2


async def test_no_more_are_claimed_ahead_than_soon_get_a_slot() -> None:
    """Also if runs are just short enough: two slots end 13 of them in a tenth of a second."""
    world = World(concurrency=2)

    async def nearly_long(run: Run) -> None:
        await world.clock.sleep(0.75 * SHORT)

    world.behave = nearly_long
    for _ in range(100):
        await world.add()
    most = 0
    while len(world.executed) < 100:
        await world.step()
        most = max(most, len(await world.backend.runs.claimed("node")))
        world.clock.advance(0.75 * SHORT)
        await world.clock.settle()
    assert 4 <= most <= 2 + 7
    assert "run.given_back" not in names(world.told)


async def test_the_next_burst_is_claimed_ahead_at_once_until_a_run_was_long() -> None:
    world = World(concurrency=2)

    async def burst() -> list[int]:
        """How many of eight have begun after each claim."""
        before = len(world.executed)
        for _ in range(8):
            await world.add()
        begun: list[int] = []
        while not begun or begun[-1] < 8:
            await world.step()
            begun.append(len(world.executed) - before)
        await world.step()
        return begun

    assert await burst() == [2, 6, 8]
    assert await burst() == [6, 8]

    async def long(run: Run) -> None:
        await world.clock.sleep(2 * SHORT)

    await world.add()
    world.behave = long
    await world.step()
    world.clock.advance(2 * SHORT)
    await world.clock.settle()
    world.behave = None
    await world.step()
    assert await burst() == [2, 6, 8]


async def test_long_runs_are_not_claimed_ahead() -> None:
    world = World(concurrency=2)

    async def long(run: Run) -> None:
        await world.clock.sleep(2 * SHORT)

    world.behave = long
    for _ in range(8):
        await world.add()
    for done in (2, 4, 6):
        await world.step()
        assert len(world.executed) == done
        world.clock.advance(2 * SHORT)
        await world.clock.settle()
        assert len(await world.backend.runs.claimed("node")) == 2


async def test_short_runs_that_waited_for_a_connection_are_claimed_ahead() -> None:
    world = World(concurrency=2)

    async def waits(run: Run) -> None:
        await world.clock.sleep(2 * SHORT)
        run.waited = 1.9 * SHORT

    world.behave = waits
    for _ in range(8):
        await world.add()
    for begun in (2, 4):
        await world.step()
        assert len(world.executed) == begun
        world.clock.advance(2 * SHORT)
        await world.clock.settle()
    assert len(world.executed) == 6  # the next two had been claimed


async def test_runs_that_are_abandoned_with_their_node_are_not_claimed_ahead() -> None:
    world = World(concurrency=2)
    for _ in range(8):
        await world.add(on_crash=OnCrash.ABANDON)
    for done in (2, 4, 6, 8):
        await world.step()
        assert len(world.executed) == done


async def ahead() -> tuple[World, list[int]]:
    """A worker that executes two of four runs that it has claimed, and the other two."""
    world = World(concurrency=2)
    for _ in range(2):
        await world.add()
    await world.step()
    world.behave = forever
    ids = [await world.add() for _ in range(4)]
    await world.step()
    assert [run.id for run in world.worker.running] == ids[:2]
    assert [run.id for run in await world.backend.runs.claimed("node")] == ids
    return world, ids[2:]


async def test_what_finds_no_slot_soon_is_given_back_for_others() -> None:
    world, left = await ahead()
    assert await world.step() == pytest.approx(AHEAD_FOR)
    world.clock.advance(AHEAD_FOR)
    await world.step()
    batch = await world.backend.runs.claim("other", ["job"], 5)
    assert [run.id for run in batch.runs] == left
    assert [(run.failures, run.attempt) for run in batch.runs] == [(0, 1), (0, 1)]
    assert names(world.told).count("run.given_back") == 2
    assert "run.retried" not in names(world.told)


async def test_what_is_given_back_keeps_its_place_in_its_queue() -> None:
    world = World(concurrency=2)
    spec = ScheduleSpec("q", "{}", "job", overlap=Overlap.QUEUE)
    await world.backend.schedules.change([Change(spec, None, None)])
    for _ in range(2):
        await world.add()
    await world.step()
    world.behave = forever
    for _ in range(2):
        await world.add()
    world.clock.advance(0.001)
    queue = [(await world.backend.schedules.run_now("q", str(i)))[0] for i in range(12)]
    await world.step()
    assert (await world.run(queue[0] or 0)).node == "node"
    world.clock.advance(AHEAD_FOR)
    await world.step()
    begun = []
    for _ in queue:
        [run] = (await world.backend.runs.claim("other", ["job"], 1)).runs
        begun.append(run.id)
        done = Result(run.id, run.claim, "other", RunState.SUCCEEDED)
        await finish(world.backend, [done])
    assert begun == queue


async def test_give_back_whose_claim_was_over_is_no_refused_result() -> None:
    world, left = await ahead()
    await world.backend.office.take(FENCE)
    await world.backend.runs.recover(FENCE, "node", 3)
    world.clock.advance(AHEAD_FOR)
    await world.step()
    assert len(left) == 2
    assert not {"run.refused", "run.given_back"} & set(names(world.told))


async def test_mixed_runs_are_claimed_ahead_up_to_the_first_that_would_be_abandoned() -> None:
    world = World(concurrency=2)
    for _ in range(4):
        await world.add("short")
    await world.step()
    world.behave = forever
    await world.add("short")
    fragile = [await world.add("fragile", on_crash=OnCrash.ABANDON) for _ in range(2)]
    await world.step()
    await world.step()
    assert len(world.worker.running) == 2
    assert (await world.run(fragile[0])).state is RunState.WAITING
    assert (await world.run(fragile[1])).state is RunState.WAITING


async def test_what_was_not_begun_is_given_back_by_a_stop() -> None:
    world, left = await ahead()
    await world.worker.stop(0.0)
    assert [run.id for run in (await world.backend.runs.claim("other", ["job"], 5)).runs][
        -2:
    ] == left
    assert [run.attempt for run in world.executed].count(2) == 0


async def test_what_was_not_begun_is_forgotten_with_the_presence() -> None:
    """Others may have it by now."""
    world, left = await ahead()
    world.node = "node, again"
    world.worker.disown("node")
    await world.clock.settle()
    await world.step()
    assert not {run.id for run in world.executed} & set(left)


async def test_what_was_not_begun_is_not_begun_while_the_presence_is_doubtful() -> None:
    world, left = await ahead()
    world.node = None
    for _, cancel in list(world.worker._running.values()):
        cancel()
    await world.clock.settle()
    assert world.worker.running == []
    assert not {run.id for run in world.executed} & set(left)
    world.node = "node"
    world.behave = None
    await world.step()  # looks for claims of its own that it does not know of
    assert {run.id for run in world.executed} >= set(left)
