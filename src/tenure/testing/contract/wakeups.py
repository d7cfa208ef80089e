"""Clauses of `Wakeups`: hints that something changed, sent with the change itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from tenure.backends.base import RUNS, SCHEDULES, Backend, lease_topic
from tenure.model import Overlap, Result, RunState
from tenure.testing.contract.harness import Harness, adding, firing, turn


class WakeupContract:
    """Each change is made through another backend object, as another process would."""

    async def test_release_wakes_those_who_wait_for_the_lease(self, harness: Harness) -> None:
        grant = await harness.grant("job")
        await self._wakes(harness, lease_topic("job"), lambda b: b.leases.release(grant))

    async def test_eviction_wakes_those_who_wait_for_the_lease(self, harness: Harness) -> None:
        await harness.grant("job")
        await self._wakes(harness, lease_topic("job"), lambda b: b.leases.evict("job", "why not"))

    async def test_change_wakes_the_leader(self, harness: Harness) -> None:
        await self._wakes(harness, SCHEDULES, lambda b: b.schedules.change([adding("a", None)]))

    async def test_removal_wakes_the_leader(self, harness: Harness) -> None:
        await harness.add("a")
        await self._wakes(harness, SCHEDULES, lambda b: b.schedules.remove("a"))

    async def test_firing_wakes_the_workers(self, harness: Harness) -> None:
        fence, schedule = await harness.in_office(), await harness.add("a")
        await self._wakes(harness, RUNS, lambda b: b.schedules.fire(fence, [firing(schedule)]))

    async def test_run_now_wakes_the_workers(self, harness: Harness) -> None:
        await harness.add("a", due_in=harness.ttl * 50)
        await self._wakes(harness, RUNS, lambda b: b.schedules.run_now("a", "key"))

    async def test_run_that_is_put_back_wakes_the_workers(self, harness: Harness) -> None:
        run = await harness.claimed_run("a", overlap=Overlap.ALLOW)
        back = Result(run.id, run.attempt, "node", RunState.WAITING)
        await self._wakes(harness, RUNS, lambda b: b.runs.finish([back]))

    async def test_recovered_run_wakes_the_workers(self, harness: Harness) -> None:
        fence = await harness.in_office()
        await harness.claimed_run("a", "dead")
        await self._wakes(harness, RUNS, lambda b: b.runs.recover(fence, "dead", 3))

    async def test_woken_reader_sees_the_change(self, harness: Harness) -> None:
        """The hint comes after the change is to be seen, never before."""
        other, heard, seen = await harness.another(), asyncio.Event(), []
        looks: list[asyncio.Task[None]] = []

        async def look() -> None:
            seen.append(len(await harness.schedules.all()))
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

    async def _wakes(
        self, harness: Harness, topic: str, act: Callable[[Backend], Awaitable[object]]
    ) -> None:
        other, heard = await harness.another(), asyncio.Event()
        stop = harness.backend.wakeups.subscribe(topic, heard.set)
        if await harness.heard(heard, patience=0.06):  # of what was done before
            heard.clear()
        await act(other)
        assert await harness.heard(heard), f"{topic!r} was not heard"
        stop()
