"""Clauses of `Wakeups`: hints that something changed, sent with the change itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from tenure.backends.base import MOST_WAKES, RUNS, SCHEDULES, lease_topic
from tenure.model import Overlap, Result, RunState
from tenure.testing.contract.harness import (
    Harness,
    LeaseHarness,
    adding,
    finish,
    firing,
    skip_unless,
    turn,
)


class LeaseWakeupContract:
    """Each change is made through another backend object, as another process would."""

    async def test_release_wakes_those_who_wait_for_the_lease(self, harness: LeaseHarness) -> None:
        grant = await harness.grant("job")
        await wakes(harness, lease_topic("job"), lambda b: b.leases.release(grant))

    async def test_eviction_wakes_those_who_wait_for_the_lease(self, harness: LeaseHarness) -> None:
        await harness.grant("job")
        await wakes(harness, lease_topic("job"), lambda b: b.leases.evict("job", "why not"))

    async def test_own_release_wakes_too(self, harness: LeaseHarness) -> None:
        heard = asyncio.Event()
        grant = await harness.grant("job")
        stop = harness.backend.wakeups.subscribe(lease_topic("job"), heard.set)
        await harness.leases.release(grant)
        assert await harness.heard(heard)
        stop()

    async def test_who_stops_waiting_is_not_woken(self, harness: LeaseHarness) -> None:
        other, first, second = await harness.another(), asyncio.Event(), asyncio.Event()
        stop_first = harness.backend.wakeups.subscribe(lease_topic("job"), first.set)
        stop_second = harness.backend.wakeups.subscribe(lease_topic("job"), second.set)
        await other.leases.release(await harness.grant("job"))
        assert await harness.heard(first)
        assert await harness.heard(second)
        stop_first()
        await turn()
        first.clear()
        second.clear()
        await other.leases.release(await harness.grant("job"))
        assert await harness.heard(second)
        assert not first.is_set()
        stop_second()


class WakeupContract(LeaseWakeupContract):
    """The same of schedules and runs."""

    async def test_change_wakes_the_leader(self, harness: Harness) -> None:
        await wakes(harness, SCHEDULES, lambda b: b.schedules.change([adding("a", None)]))

    async def test_removal_wakes_the_leader(self, harness: Harness) -> None:
        await harness.add("a")
        await wakes(harness, SCHEDULES, lambda b: b.schedules.remove("a"))

    async def test_firing_wakes_the_workers(self, harness: Harness) -> None:
        fence, schedule = await harness.in_office(), await harness.add("a")
        await wakes(harness, RUNS, lambda b: b.schedules.fire(fence, [firing(schedule)]))

    async def test_run_now_wakes_the_workers(self, harness: Harness) -> None:
        await harness.add("a", due_in=harness.ttl * 50)
        await wakes(harness, RUNS, lambda b: b.schedules.run_now("a", "key"))

    async def test_run_that_is_put_back_wakes_the_workers(self, harness: Harness) -> None:
        run = await harness.claimed_run("a", overlap=Overlap.ALLOW)
        back = Result(run.id, run.attempt, "node", RunState.WAITING)
        await wakes(harness, RUNS, lambda b: finish(b, [back]))

    async def test_recovered_run_wakes_the_workers(self, harness: Harness) -> None:
        fence = await harness.in_office()
        await harness.claimed_run("a", "dead")
        await wakes(harness, RUNS, lambda b: b.runs.recover(fence, "dead", 3))

    async def test_who_has_no_room_for_runs_leaves_them_to_others(self, harness: Harness) -> None:
        """Whoever was woken stops waiting: then another is woken, until all were."""
        fence, schedule = await harness.in_office(), await harness.add("a")
        events = {asyncio.Event(): await harness.another() for _ in range(4)}
        stops = {
            heard: backend.wakeups.subscribe(RUNS, heard.set) for heard, backend in events.items()
        }
        for heard in stops:
            if await harness.heard(heard, patience=0.06):
                heard.clear()
        await harness.schedules.fire(fence, [firing(schedule)])
        for _ in range(100):
            for heard in list(stops):
                if await harness.heard(heard, patience=0.06):
                    stops.pop(heard)()
            if not stops:
                break
        assert not stops, f"{len(stops)} were left to sleep"

    async def test_woken_reader_sees_the_change(self, harness: Harness) -> None:
        """The hint comes after the change is to be seen, never before."""
        other, heard, seen = await harness.another(), asyncio.Event(), []
        looks: list[asyncio.Task[None]] = []

        async def look() -> None:
            seen.append(len(await harness.schedules.find()))
            heard.set()

        stop = harness.backend.wakeups.subscribe(
            SCHEDULES, lambda: looks.append(asyncio.ensure_future(look()))
        )
        await other.schedules.change([adding("a", None)])
        assert await harness.heard(heard)
        while seen[-1] != 1:  # that one came for nothing, before the change
            heard.clear()
            assert await harness.heard(heard)
        stop()
        await asyncio.gather(*looks)  # none may still ask when the store is closed

    async def test_own_changes_wake_too(self, harness: Harness) -> None:
        heard = asyncio.Event()
        stop = harness.backend.wakeups.subscribe(SCHEDULES, heard.set)
        await harness.add("a", due_in=timedelta(days=1).total_seconds())
        assert await harness.heard(heard)
        stop()

    async def test_callbacks_run_on_the_subscribers_loop(self, harness: Harness) -> None:
        other, heard, loops = await harness.another(), asyncio.Event(), []

        def callback() -> None:
            loops.append(asyncio.get_running_loop())
            heard.set()

        stop = harness.backend.wakeups.subscribe(SCHEDULES, callback)
        await other.schedules.change([adding("a", None)])
        assert await harness.heard(heard)
        stop()
        assert set(loops) == {asyncio.get_running_loop()}

    async def test_every_subscriber_is_woken_until_it_stops(self, harness: Harness) -> None:
        other, first, second = await harness.another(), asyncio.Event(), asyncio.Event()
        stop_first = harness.backend.wakeups.subscribe(SCHEDULES, first.set)
        stop_second = harness.backend.wakeups.subscribe(SCHEDULES, second.set)
        await other.schedules.change([adding("a", None)])
        assert await harness.heard(first)
        assert await harness.heard(second)
        stop_first()
        await turn()
        first.clear()
        second.clear()
        await other.schedules.change([adding("b", None)])
        assert await harness.heard(second)
        assert not first.is_set()
        stop_second()

    async def test_flood_of_them_is_put_together_and_the_last_is_heard(
        self, harness: Harness
    ) -> None:
        skip_unless(await harness.cry_wolf(SCHEDULES), "no other process reaches this store")
        other, heard, times = await harness.another(), asyncio.Event(), 0

        def callback() -> None:
            nonlocal times
            times += 1
            heard.set()

        loop = asyncio.get_running_loop()
        stop = harness.backend.wakeups.subscribe(SCHEDULES, callback)
        begun = loop.time()
        for _ in range(8 * MOST_WAKES):
            await harness.cry_wolf(SCHEDULES)
            await harness.advance(harness.ttl / 20)
            await turn()
        assert times <= MOST_WAKES * (1 + loop.time() - begun) + 1
        heard.clear()
        await other.schedules.change([adding("a", None)])
        assert await harness.heard(heard)
        stop()


async def wakes(harness: LeaseHarness, topic: str, act: Callable[[Any], Awaitable[object]]) -> None:
    other, heard = await harness.another(), asyncio.Event()
    stop = harness.backend.wakeups.subscribe(topic, heard.set)
    if await harness.heard(heard, patience=0.06):  # of what was done before
        heard.clear()
    await act(other)
    assert await harness.heard(heard), f"{topic!r} was not heard"
    stop()
