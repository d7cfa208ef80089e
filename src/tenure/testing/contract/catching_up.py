"""Clauses of `ScheduleStore`: occurrences that are fired late, several at once, or after all."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from tenure.errors import NotFound
from tenure.model import (
    Fault,
    Fired,
    Kind,
    Missed,
    OccurrenceState,
    Overlap,
    Planned,
    Schedule,
)
from tenure.testing.contract.harness import TASK, Harness, adding, firing, together

SECOND = timedelta(seconds=1)


async def late(harness: Harness, name: str = "a", **policy: object) -> tuple[Schedule, datetime]:
    """A schedule that is five seconds late; and the nominal time that it is at."""
    schedule = await harness.add(name, -5.0, **policy)
    assert schedule.next_nominal is not None
    return schedule, schedule.next_nominal


def several(schedule: Schedule, first: datetime, count: int) -> tuple[Planned, ...]:
    return tuple(Planned(first + i * SECOND, first + i * SECOND) for i in range(count))


class CatchingUpContract:
    """Several occurrences in one firing, none at all, backfill, schedules without a plan."""

    async def test_one_firing_may_fire_several_occurrences(self, harness: Harness) -> None:
        fence = await harness.in_office(3, "ann")
        schedule, first = await late(harness)
        later = first + 60 * SECOND
        plan = firing(schedule, next_nominal=later)._replace(
            occurrences=several(schedule, first, 3)
        )
        assert await harness.schedules.fire(fence, [plan]) == Fired(fired=3)
        assert await harness.schedules.fire(fence, [plan]) == Fired(stale=1)
        lines = await harness.schedules.occurrences("a")
        assert [line.nominal for line in lines] == [first + i * SECOND for i in (2, 1, 0)]
        assert {line.state for line in lines} == {OccurrenceState.FIRED}
        runs = [await harness.run(line.run_id) for line in lines if line.run_id is not None]
        assert [run.nominal for run in runs] == [line.nominal for line in lines]
        assert (await harness.the("a")).next_nominal == later

    @pytest.mark.parametrize("overlap", list(Overlap))
    async def test_what_is_caught_up_queues_in_order_unless_it_may_overlap(
        self, harness: Harness, overlap: Overlap
    ) -> None:
        fence = await harness.in_office()
        schedule, first = await late(harness, overlap=overlap)
        plan = firing(schedule)._replace(occurrences=several(schedule, first, 3))
        assert await harness.schedules.fire(fence, [plan]) == Fired(fired=3)
        claimed = (await harness.runs.claim("node", [TASK], 9)).runs
        assert len(claimed) == (3 if overlap is Overlap.ALLOW else 1)
        assert claimed[0].nominal == first

    async def test_what_is_caught_up_skips_for_a_run_from_before(self, harness: Harness) -> None:
        fence = await harness.in_office()
        await harness.waiting_run("before", lock="shared")
        schedule, first = await late(harness, lock="shared")
        plan = firing(schedule)._replace(occurrences=several(schedule, first, 2))
        assert await harness.schedules.fire(fence, [plan]) == Fired(skipped=("a", "a"))
        lines = await harness.schedules.occurrences("a")
        assert [line.state for line in lines] == [OccurrenceState.SKIPPED] * 2

    async def test_firing_without_an_occurrence_records_what_was_missed_and_moves_on(
        self, harness: Harness
    ) -> None:
        fence = await harness.in_office()
        schedule, first = await late(harness)
        stretch = Missed(first, first + 3 * SECOND, "too late")
        later = first + 60 * SECOND
        plan = firing(schedule, missed=stretch, next_nominal=later)._replace(occurrences=())
        assert await harness.schedules.fire(fence, [plan]) == Fired(missed=1)
        [line] = await harness.schedules.occurrences("a")
        assert (line.state, line.reason) == (OccurrenceState.MISSED, "too late")
        assert (line.nominal, line.last) == (first, first + 3 * SECOND)
        assert (await harness.the("a")).next_nominal == later
        assert await harness.runs.find(schedule="a") == []

    async def test_run_is_due_when_the_occurrence_is_not_at_its_nominal_time(
        self, harness: Harness
    ) -> None:
        fence = await harness.in_office()
        schedule, first = await late(harness)
        delayed = Planned(first, await harness.now() + 60 * SECOND)
        await harness.schedules.fire(fence, [firing(schedule)._replace(occurrences=(delayed,))])
        [run] = await harness.runs.find(schedule="a")
        assert (run.nominal, run.due) == delayed
        assert (await harness.runs.claim("node", [TASK], 9)).runs == []

    async def test_schedule_without_a_plan_is_due_and_gets_one(self, harness: Harness) -> None:
        fence, now = await harness.in_office(), await harness.now()
        unplanned = replace(adding("a", None), next_due=now)
        [schedule] = await harness.schedules.change([unplanned])
        [due] = (await harness.schedules.due(9)).schedules
        assert (due.uid, due.next_nominal) == (schedule.uid, None)
        later = now + 60 * SECOND
        anchored = '{"type":"every","v":1,"seconds":60,"anchor":"2026-01-01T00:00:00+00:00"}'
        plan = firing(replace(schedule, next_nominal=later), next_nominal=later)._replace(
            expected=None, occurrences=(), trigger=anchored
        )
        assert await harness.schedules.fire(fence, [plan]) == Fired()
        planned = await harness.the("a")
        assert (planned.next_nominal, planned.next_due) == (later, later)
        assert planned.spec.trigger == anchored
        assert await harness.schedules.fire(fence, [plan]) == Fired(stale=1)

    async def test_due_tells_the_policy(self, harness: Harness) -> None:
        await harness.add("a", catch_up_limit=7, catch_up_grace=1.5)
        [due] = (await harness.schedules.due(9)).schedules
        assert (due.catch_up_limit, due.catch_up_grace) == (7, 1.5)
        spec = (await harness.the("a")).spec
        assert (spec.catch_up_limit, spec.catch_up_grace) == (7, 1.5)

    async def test_fault_with_a_time_puts_the_schedule_off(self, harness: Harness) -> None:
        fence = await harness.in_office()
        schedule, first = await late(harness)
        until = await harness.now() + 60 * SECOND
        fault = Fault(schedule.uid, schedule.version, "not known here", until, first)
        await harness.schedules.fire(fence, [], [fault])
        put_off = await harness.the("a")
        assert (put_off.active, put_off.reason) == (True, "not known here")
        assert (put_off.next_nominal, put_off.next_due) == (first, until)
        assert put_off.version == schedule.version
        await harness.advance(60)
        assert await harness.schedules.fire(fence, [firing(schedule)]) == Fired(fired=1)
        assert (await harness.the("a")).reason is None

    # -- backfill -------------------------------------------------------------------------------

    async def test_backfill_fires_what_was_missed_once_and_in_order(self, harness: Harness) -> None:
        fence = await harness.in_office()
        schedule, first = await late(harness)
        stretch = Missed(first, first + 2 * SECOND, "nobody was there")
        fired = Planned(first + 3 * SECOND, first + 3 * SECOND)
        plan = firing(schedule, missed=stretch)._replace(occurrences=(fired,))
        await harness.schedules.fire(fence, [plan])
        wanted = [first + i * SECOND for i in range(4)]
        assert await harness.schedules.backfill("a", wanted) == wanted[:3]
        other = await harness.another()
        assert await other.schedules.backfill("a", wanted) == []
        runs = [run for run in await harness.runs.find(schedule="a") if run.kind is Kind.BACKFILL]
        assert [run.nominal for run in runs] == wanted[2::-1]
        lines = [o for o in await harness.schedules.occurrences("a") if o.kind is Kind.BACKFILL]
        assert {line.state for line in lines} == {OccurrenceState.FIRED}
        assert {line.run_id for line in lines} == {run.id for run in runs}
        assert await harness.the("a") == replace(
            await harness.the("a"), next_nominal=None, version=schedule.version
        )

    async def test_backfill_queues_and_does_not_skip(self, harness: Harness) -> None:
        await harness.waiting_run("a", "before")
        first = await harness.now() - 9 * SECOND
        assert len(await harness.schedules.backfill("a", [first, first + SECOND])) == 2
        claimed = (await harness.runs.claim("node", [TASK], 9)).runs
        assert [run.kind for run in claimed] == [Kind.MANUAL]

    async def test_dry_run_of_a_backfill_changes_nothing(self, harness: Harness) -> None:
        await harness.add("a")
        wanted = [await harness.now() - 9 * SECOND]
        assert await harness.schedules.backfill("a", wanted, dry_run=True) == wanted
        assert await harness.runs.find(schedule="a") == []
        assert await harness.schedules.backfill("a", wanted) == wanted

    async def test_backfill_of_an_unknown_schedule_is_not_found(self, harness: Harness) -> None:
        now = await harness.now()
        for dry_run in (True, False):
            with pytest.raises(NotFound):
                await harness.schedules.backfill("never", [now], dry_run=dry_run)

    async def test_simultaneous_backfills_fire_each_once(self, harness: Harness) -> None:
        backends = await harness.backends(3)
        await harness.add("a", overlap=Overlap.ALLOW)
        first = await harness.now() - 99 * SECOND
        wanted = [first + i * SECOND for i in range(5)]
        answers = await together(*(b.schedules.backfill("a", wanted) for b in backends))
        assert sorted(len(answer) for answer in answers) == [0, 0, 5]
        runs = [run for run in await harness.runs.find(schedule="a") if run.kind is Kind.BACKFILL]
        assert sorted(run.nominal for run in runs) == wanted
