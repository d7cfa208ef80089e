"""Clauses of both stores: what history keeps on record, and what it knows when that is gone."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from tenure.errors import BeyondHistory
from tenure.model import (
    Fault,
    Fence,
    Fired,
    Missed,
    OccurrenceState,
    Planned,
    Pruned,
    Result,
    RunState,
    Schedule,
)
from tenure.testing.contract.harness import TASK, Harness, adding, firing, replacing

SECOND = timedelta(seconds=1)
MISSED = OccurrenceState.MISSED


async def planned(harness: Harness, name: str = "a") -> tuple[Schedule, datetime]:
    """A schedule that is nine seconds late; and the nominal time that it is at."""
    schedule = await harness.add(name, -9.0)
    assert schedule.next_nominal is not None
    return schedule, schedule.next_nominal


async def fire(harness: Harness, fence: Fence, schedule: Schedule, nominal: datetime) -> None:
    """Fire it and let its run succeed; it is at the same point of its plan afterwards."""
    plan = firing(schedule, next_nominal=schedule.next_nominal)
    plan = plan._replace(occurrences=(Planned(nominal, nominal),))
    assert await harness.schedules.fire(fence, [plan]) == Fired(fired=1)
    for run in (await harness.runs.claim("node", [TASK], 9)).runs:
        await harness.finish([Result(run.id, run.claim, "node", RunState.SUCCEEDED)])


class HistoryContract:
    """Missed stretches, schedules that are put off, and backfill beyond what was pruned."""

    # -- at a glance ----------------------------------------------------------------------------

    async def test_last_outcomes_are_the_newest_first_and_of_planned_occurrences(
        self, harness: Harness
    ) -> None:
        fence = await harness.in_office()
        schedule, first = await planned(harness)
        other = await harness.add("b", 60.0)
        for second in range(3):
            await fire(harness, fence, schedule, first + second * SECOND)
        plan = firing(schedule, next_nominal=schedule.next_nominal)
        fifth = first + 5 * SECOND
        await harness.schedules.fire(fence, [plan._replace(occurrences=(Planned(fifth, fifth),))])
        stretch = Missed(first + 6 * SECOND, first + 7 * SECOND, "late")
        await _miss(harness, fence, stretch, "change")
        await harness.schedules.run_now("b", "key")
        uids = [schedule.uid, other.uid, 10**9]
        states = ["missed", "waiting", "succeeded", "succeeded", "succeeded"]
        assert await harness.schedules.recent(uids) == {schedule.uid: states}
        assert await harness.schedules.recent(uids, 2) == {schedule.uid: states[:2]}
        assert await harness.schedules.recent([other.uid]) == {}
        assert await harness.schedules.recent([]) == {}

    # -- what was missed ------------------------------------------------------------------------

    @pytest.mark.parametrize("by", ["firing", "change"])
    async def test_missed_stretch_that_begins_where_another_does_makes_it_longer(
        self, harness: Harness, by: str
    ) -> None:
        fence = await harness.in_office()
        schedule, first = await planned(harness)
        for last, reason in ((2, "one"), (5, "two"), (3, "three"), (7, "two")):
            stretch = Missed(first, first + last * SECOND, reason)
            await _miss(harness, fence, stretch, by)
        [line] = await harness.schedules.occurrences("a")
        assert (line.nominal, line.last, line.state) == (first, first + 7 * SECOND, MISSED)
        assert line.reason == "one; two"
        assert schedule.uid == line.uid

    @pytest.mark.parametrize("by", ["firing", "change"])
    async def test_missed_stretch_that_begins_with_what_was_fired_is_the_rest_of_it(
        self, harness: Harness, by: str
    ) -> None:
        fence = await harness.in_office()
        schedule, first = await planned(harness)
        await fire(harness, fence, schedule, first)
        await _miss(harness, fence, Missed(first, first, "nothing else"), by)
        assert len(await harness.schedules.occurrences("a")) == 1
        for last in (4, 6):
            await _miss(harness, fence, Missed(first, first + last * SECOND, "too late"), by)
        rest, fired = await harness.schedules.occurrences("a")
        assert (fired.nominal, fired.state) == (first, OccurrenceState.FIRED)
        assert (rest.last, rest.state, rest.reason) == (first + 6 * SECOND, MISSED, "too late")
        assert first < rest.nominal < first + SECOND
        assert await harness.schedules.occurrences("a", until=first) == [fired]
        assert await harness.schedules.occurrences("a", until=first - SECOND) == []

    # -- put off --------------------------------------------------------------------------------

    async def test_schedule_that_was_never_planned_is_put_off_and_keeps_its_begin(
        self, harness: Harness
    ) -> None:
        fence, began = await harness.in_office(), await harness.now()
        [schedule] = await harness.schedules.change([replace(adding("a", None), next_due=began)])
        for _ in range(2):
            [due] = (await harness.schedules.due(9)).schedules
            assert (due.next_nominal, due.begins or due.next_due) == (None, began)
            until = await harness.now() + timedelta(seconds=harness.ttl)
            fault = Fault(schedule.uid, schedule.version, "put off: not known here", until)
            await harness.schedules.fire(fence, [], [fault])
            assert (await harness.schedules.due(9)).schedules == []
            assert (await harness.the("a")).next_due == until
            await harness.advance(harness.ttl)
        [due] = (await harness.schedules.due(9)).schedules
        assert due.begins == began

    async def test_schedule_that_was_planned_and_put_off_goes_by_its_plan(
        self, harness: Harness
    ) -> None:
        fence = await harness.in_office()
        schedule, first = await planned(harness)
        until = await harness.now() + timedelta(seconds=harness.ttl)
        await harness.schedules.fire(fence, [], [Fault(schedule.uid, 1, "put off", until, first)])
        await harness.advance(harness.ttl)
        [due] = (await harness.schedules.due(9)).schedules
        assert (due.next_nominal, due.begins) == (first, None)

    # -- beyond history -------------------------------------------------------------------------

    async def test_backfill_refuses_times_that_history_does_not_cover_any_more(
        self, harness: Harness
    ) -> None:
        fence = await harness.in_office()
        schedule, first = await planned(harness)
        await fire(harness, fence, schedule, first)
        await harness.advance(harness.ttl)
        wanted = [first - SECOND, first]
        assert await harness.schedules.backfill("a", wanted, dry_run=True) == wanted[:1]
        assert (await harness.runs.prune(fence, harness.ttl / 2, 100)).count == 2
        with pytest.raises(BeyondHistory):
            await harness.schedules.backfill("a", wanted, dry_run=True)
        with pytest.raises(BeyondHistory) as refused:
            await harness.schedules.backfill("a", wanted)
        assert first <= refused.value.since < await harness.now()
        assert await harness.schedules.occurrences("a") == []
        since = await harness.now()
        assert await harness.schedules.backfill("a", [since]) == [since]
        again = await harness.schedules.backfill("a", [*wanted, since], beyond_history=True)
        assert again == wanted

    async def test_schedule_that_is_younger_than_what_was_pruned_has_all_its_history(
        self, harness: Harness
    ) -> None:
        fence = await harness.in_office()
        schedule, first = await planned(harness)
        await fire(harness, fence, schedule, first)
        await harness.advance(harness.ttl)
        assert (await harness.runs.prune(fence, harness.ttl / 2, 100)).count == 2
        await planned(harness, "younger")
        assert await harness.schedules.backfill("younger", [first]) == [first]

    async def test_history_that_lost_nothing_but_what_was_skipped_covers_all(
        self, harness: Harness
    ) -> None:
        fence = await harness.in_office()
        schedule, first = await planned(harness)
        await _miss(harness, fence, Missed(first, first + SECOND, "too late"), "firing")
        await harness.advance(harness.ttl)
        assert (await harness.runs.prune(fence, harness.ttl / 2, 100)).count == 1
        assert await harness.schedules.backfill("a", [first]) == [first]
        assert schedule.name == "a"

    async def test_what_is_left_on_record_is_still_left_out(self, harness: Harness) -> None:
        """The limit leaves some: they are known to have been fired."""
        fence = await harness.in_office()
        schedule, first = await planned(harness)
        for seconds in (0, 1):
            await fire(harness, fence, schedule, first + seconds * SECOND)
            await harness.advance(harness.ttl)
        await harness.runs.prune(fence, harness.ttl / 2, 1)
        [line] = await harness.schedules.occurrences("a")
        assert await harness.schedules.backfill("a", [line.nominal]) == []

    async def test_prune_says_when_the_last_run_that_it_deleted_ended(
        self, harness: Harness
    ) -> None:
        fence = await harness.in_office()
        schedule, first = await planned(harness)
        assert await harness.runs.prune(fence, 0.0, 100) == Pruned(0)
        for seconds in range(3):
            await harness.advance(harness.ttl)
            await fire(harness, fence, schedule, first + seconds * SECOND)
        await harness.advance(harness.ttl)
        ends = sorted(run.finished_at for run in await harness.runs.find() if run.finished_at)
        counted = await harness.runs.prune(fence, harness.ttl / 2, 100, dry_run=True)
        assert counted == Pruned(6)
        assert (await harness.runs.prune(fence, harness.ttl / 2, 2)).ended == ends[1]
        assert (await harness.runs.prune(fence, harness.ttl / 2, 2)).ended == ends[2]

    async def test_prune_without_a_fence_asks_for_no_office(self, harness: Harness) -> None:
        fence = await harness.in_office()
        schedule, first = await planned(harness)
        await fire(harness, fence, schedule, first)
        await harness.advance(harness.ttl)
        assert (await harness.runs.prune(None, harness.ttl / 2, 100)).count == 2


async def _miss(harness: Harness, fence: Fence, stretch: Missed, by: str) -> None:
    """Record it, and leave the schedule at the same point of its plan."""
    schedule = await harness.the("a")
    if by == "change":
        await harness.schedules.change([replacing(schedule, missed=stretch)])
        return
    plan = firing(schedule, missed=stretch, next_nominal=schedule.next_nominal)
    await harness.schedules.fire(fence, [plan._replace(occurrences=())])
