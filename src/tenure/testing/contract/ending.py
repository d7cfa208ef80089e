"""Clauses of `RunStore.prune` and `ScheduleStore.find`: schedules that have no more times."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tenure.model import Fence, Result, RunState, Schedule
from tenure.testing.contract.harness import TASK, Harness, adding, firing, replacing


class EndingContract:
    """In the listings for as long as something of them is on record."""

    async def test_schedule_that_has_ended_stays_as_long_as_its_history(
        self, harness: Harness
    ) -> None:
        fence = await harness.in_office()
        schedule = await _ended(harness, fence, "a")
        assert list(await harness.schedules.find()) == ["a"]
        await _prune(harness, fence, times=3)  # its run is not over
        assert await harness.the("a") == schedule
        await _execute(harness)
        await _prune(harness, fence, harness.ttl * 9)
        assert list(await harness.schedules.find()) == ["a"]
        await _prune(harness, fence, times=3)
        assert await harness.runs.find() == []
        assert await harness.schedules.find(ended=True) == {}
        assert await harness.schedules.find(["a"]) == {}
        await harness.add("a", due_in=harness.ttl)  # the name is free

    async def test_what_code_declares_stays_and_is_not_listed(self, harness: Harness) -> None:
        """If it were gone, the next start of the app would add it, and fire it, once more."""
        fence = await harness.in_office()
        schedule = await _ended(harness, fence, "a", app="shop")
        other = await harness.add("b", due_in=harness.ttl * 99)
        await _execute(harness)
        await _prune(harness, fence, times=3)
        assert list(await harness.schedules.find()) == ["b"]
        assert list(await harness.schedules.find(ended=True)) == ["a", "b"]
        assert list(await harness.schedules.find(ended=True, limit=1)) == ["a"]
        assert list(await harness.schedules.find(limit=1)) == ["b"]
        kept = await harness.the("a")
        assert (kept.uid, kept.active, kept.next_due) == (schedule.uid, True, None)
        assert kept.reason is not None
        [declared] = (await harness.editions.declared("shop")).schedules
        assert declared == kept
        assert await harness.the("b") == other

    async def test_one_that_goes_on_is_listed_again(self, harness: Harness) -> None:
        fence = await harness.in_office()
        await _ended(harness, fence, "a", app="shop")
        await _execute(harness)
        await _prune(harness, fence, times=2)
        assert await harness.schedules.find() == {}
        later = await harness.now() + timedelta(seconds=harness.ttl)
        await harness.schedules.change(
            [replacing(await harness.the("a"), next_nominal=later, next_due=later, reason=None)]
        )
        assert list(await harness.schedules.find()) == ["a"]

    async def test_one_not_to_be_kept_is_gone_when_it_has_fired(self, harness: Harness) -> None:
        """Its run goes on, also after a failed attempt, and stays under its name."""
        fence = await harness.in_office()
        schedule = await harness.add("a", retries=1)
        other = await harness.add("b", due_in=harness.ttl * 99)
        last = firing(schedule)._replace(put_away=True)
        stale = firing(other)._replace(put_away=True)  # it is not due
        done = await harness.schedules.fire(fence, [last, stale])
        assert (done.fired, done.stale) == (1, 1)
        assert await harness.schedules.find(ended=True) == {"b": other}
        [run] = (await harness.runs.claim("node", [TASK], 5)).runs
        assert run.schedule == "a"
        await harness.finish([Result(run.id, run.claim, "node", RunState.WAITING, "x", 0.0)])
        await _execute(harness)
        [run] = await harness.runs.find(schedule="a")
        assert (run.state, run.attempt) == (RunState.SUCCEEDED, 2)
        await harness.add("a", due_in=harness.ttl)  # the name is free
        await _prune(harness, fence, times=3)
        assert await harness.runs.find() == []

    async def test_one_that_code_declares_is_marked_when_it_has_fired(
        self, harness: Harness
    ) -> None:
        fence = await harness.in_office()
        schedule = await harness.add("a", app="shop")
        await harness.schedules.fire(fence, [firing(schedule)._replace(put_away=True)])
        assert await harness.schedules.find() == {}
        kept = await harness.the("a")
        assert (kept.uid, kept.active, kept.next_due) == (schedule.uid, True, None)
        [declared] = (await harness.editions.declared("shop")).schedules
        assert declared == kept

    async def test_what_has_not_ended_or_only_now_stays(self, harness: Harness) -> None:
        fence = await harness.in_office()
        await harness.schedules.change([adding("paused", None, active=False, reason="paused")])
        await harness.add("planned", due_in=harness.ttl * 99)
        await harness.advance(harness.ttl)
        await harness.schedules.change([adding("young", None)])
        for _ in range(3):
            await harness.runs.prune(fence, harness.ttl / 2, 100)
        assert list(await harness.schedules.find()) == ["paused", "planned", "young"]

    async def test_looking_what_would_go_changes_nothing(self, harness: Harness) -> None:
        fence = await harness.in_office()
        await harness.schedules.change([adding("a", None), adding("b", None, app="shop")])
        await harness.advance(harness.ttl)
        for _ in range(2):
            await harness.runs.prune(fence, harness.ttl / 2, 100, dry_run=True)
        assert list(await harness.schedules.find()) == ["a", "b"]
        await harness.runs.prune(fence, harness.ttl / 2, 1)
        assert len(await harness.schedules.find()) == 1  # the limit holds here, too
        await harness.runs.prune(fence, harness.ttl / 2, 1)
        assert await harness.schedules.find() == {}


async def _ended(harness: Harness, fence: Fence, name: str, **options: Any) -> Schedule:
    """A schedule that has fired for the last time."""
    schedule = await harness.add(name, **options)
    assert (await harness.schedules.fire(fence, [firing(schedule)])).fired == 1
    return await harness.the(name)


async def _execute(harness: Harness) -> None:
    [run] = (await harness.runs.claim("node", [TASK], 5)).runs
    await harness.finish([Result(run.id, run.claim, "node", RunState.SUCCEEDED)])


async def _prune(
    harness: Harness, fence: Fence, older_than: float | None = None, times: int = 1
) -> None:
    """One look after the other, as the leader does."""
    await harness.advance(harness.ttl)
    for _ in range(times):
        await harness.runs.prune(fence, older_than or harness.ttl / 2, 100)
