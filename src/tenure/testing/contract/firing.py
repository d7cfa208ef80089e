"""Clauses of `ScheduleStore`: the one transaction that fires."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from tenure.backends.base import LONGEST_WAIT
from tenure.errors import NotFound
from tenure.model import (
    Fault,
    Fired,
    Firing,
    Kind,
    Missed,
    OccurrenceState,
    Overlap,
    Planned,
    Result,
    RunState,
)
from tenure.testing.contract.harness import (
    TASK,
    Harness,
    adding,
    firing,
    replacing,
    together,
    turn,
)


class FiringContract:
    """Fire, run now, occurrences."""

    # -- fire -----------------------------------------------------------------------------------

    async def test_firing_records_the_occurrence_adds_the_run_and_moves_on(
        self, harness: Harness
    ) -> None:
        fence = await harness.in_office(4, "ann")
        schedule = await harness.add("a", kwargs='{"n":1}', priority=2, timeout=9.5, retries=3)
        assert schedule.next_nominal is not None
        later = schedule.next_nominal + timedelta(seconds=60)
        done = await harness.schedules.fire(fence, [firing(schedule, next_nominal=later)])
        assert done == Fired(fired=1)
        other = await harness.another()
        moved = (await other.schedules.find(["a"]))["a"]
        assert (moved.next_nominal, moved.next_due) == (later, later)
        [line] = await other.schedules.occurrences("a")
        assert (line.schedule, line.uid, line.kind) == ("a", schedule.uid, Kind.PLANNED)
        assert (line.nominal, line.last) == (schedule.next_nominal, schedule.next_nominal)
        assert (line.state, line.reason, line.term) == (OccurrenceState.FIRED, None, 4)
        assert line.run_id is not None
        run = await harness.run(line.run_id)
        assert (run.schedule, run.uid, run.kind) == ("a", schedule.uid, Kind.PLANNED)
        assert (run.nominal, run.task, run.kwargs) == (schedule.next_nominal, TASK, {"n": 1})
        assert (run.state, run.attempt, run.crashes) == (RunState.WAITING, 0, 0)
        assert (run.priority, run.timeout, run.retries, run.term) == (2, 9.5, 3, 4)
        assert (run.node, run.claimed_at, run.finished_at) == (None, None, None)

    async def test_run_carries_the_trace_that_it_was_fired_in(self, harness: Harness) -> None:
        fence, plain = await harness.in_office(), await harness.add("a")
        caught_up, untraced = await harness.add("b"), await harness.add("c")
        assert caught_up.next_nominal is not None
        first = caught_up.next_nominal - timedelta(seconds=60)
        both = tuple(Planned(time, time) for time in (first, caught_up.next_nominal))
        missed = Missed(first - timedelta(seconds=90), first - timedelta(seconds=80), "why")
        late = firing(caught_up, missed=missed)._replace(occurrences=both)
        trace = f"00-{7:032x}-{9:016x}-01"
        done = await harness.schedules.fire(fence, [firing(plain), late], traceparent=trace)
        assert done == Fired(fired=3, missed=1)
        assert await harness.schedules.fire(fence, [firing(untraced)]) == Fired(fired=1)
        traces = {(run.schedule, run.traceparent) for run in await harness.runs.find()}
        assert traces == {("a", trace), ("b", trace), ("c", None)}

    async def test_same_nominal_fires_once(self, harness: Harness) -> None:
        """The same plan again, as after a lost reply, is stale."""
        fence, schedule = await harness.in_office(), await harness.add("a")
        later = await harness.now() + timedelta(seconds=60)
        plan = [firing(schedule, next_nominal=later)]
        assert (await harness.schedules.fire(fence, plan)).fired == 1
        assert await harness.schedules.fire(fence, plan) == Fired(stale=1)
        assert len(await harness.runs.find(schedule="a")) == 1

    async def test_firing_of_an_earlier_plan_is_stale(self, harness: Harness) -> None:
        """Its request was under way for long: the schedule has moved on since, and is due again."""
        fence = await harness.in_office()
        schedule = await harness.add("a", overlap=Overlap.ALLOW)
        first = schedule.next_nominal
        assert first is not None
        second, third = first + timedelta(microseconds=1), first + timedelta(microseconds=2)
        await harness.advance(harness.ttl / 20)
        await harness.schedules.fire(fence, [firing(schedule, next_nominal=third)])
        late = [
            firing(schedule, next_nominal=second),
            firing(schedule, nominal=second, next_nominal=first + timedelta(days=1)),
        ]
        for plan in late:
            assert await harness.schedules.fire(fence, [plan]) == Fired(stale=1)
        assert (await harness.the("a")).next_nominal == third
        assert len(await harness.runs.find(schedule="a")) == 1
        assert len(await harness.schedules.occurrences("a")) == 1

    async def test_simultaneous_firings_of_one_nominal_fire_once(self, harness: Harness) -> None:
        fence, backends = await harness.in_office(), await harness.backends(4)
        schedule = await harness.add("a", overlap=Overlap.ALLOW)
        answers = await together(*(b.schedules.fire(fence, [firing(schedule)]) for b in backends))
        assert sorted(answer.fired for answer in answers) == [0, 0, 0, 1]
        assert len(await harness.runs.find(schedule="a")) == 1

    async def test_occurrence_that_exists_is_not_fired_again(self, harness: Harness) -> None:
        """An edit or a clock set back may bring the same nominal time up again."""
        fence = await harness.in_office()
        schedule = await harness.add("a", overlap=Overlap.ALLOW)
        later = await harness.now() + timedelta(seconds=60)
        await harness.schedules.fire(fence, [firing(schedule, next_nominal=later)])
        moved = await harness.the("a")
        [back] = await harness.schedules.change(
            [replacing(moved, next_nominal=schedule.next_nominal, next_due=schedule.next_due)]
        )
        done = await harness.schedules.fire(fence, [firing(back, next_nominal=later)])
        assert (done.fired, done.stale) == (0, 0)
        assert len(await harness.runs.find(schedule="a")) == 1
        assert len(await harness.schedules.occurrences("a")) == 1
        assert (await harness.the("a")).next_nominal == later

    async def test_missed_stretch_that_exists_does_not_stop_the_firing(
        self, harness: Harness
    ) -> None:
        fence, schedule = await harness.in_office(), await harness.add("a")
        first = schedule.next_nominal
        assert first is not None
        missed = Missed(first, first, "late")
        [edited] = await harness.schedules.change([replacing(schedule, missed=missed)])
        done = await harness.schedules.fire(
            fence, [firing(edited, nominal=first + timedelta(seconds=1), missed=missed)]
        )
        assert (done.fired, done.stale) == (1, 0)
        lines = await harness.schedules.occurrences("a")
        assert [line.state for line in lines] == [OccurrenceState.FIRED, OccurrenceState.MISSED]

    async def test_edited_schedule_makes_firing_stale(self, harness: Harness) -> None:
        fence, read = await harness.in_office(), await harness.add("a")
        await harness.schedules.change([replacing(read, reason="edited")])
        assert await harness.schedules.fire(fence, [firing(read)]) == Fired(stale=1)
        assert await harness.runs.find() == []
        assert len((await harness.schedules.due(10)).schedules) == 1

    async def test_paused_or_removed_schedule_makes_firing_stale(self, harness: Harness) -> None:
        fence = await harness.in_office()
        paused, removed = await harness.add("paused"), await harness.add("removed")
        [now_paused] = await harness.schedules.change([replacing(paused, active=False)])
        await harness.schedules.remove("removed")
        plans = [firing(paused), firing(now_paused), firing(removed)]
        assert await harness.schedules.fire(fence, plans) == Fired(stale=3)
        assert await harness.runs.find() == []

    async def test_firing_before_its_time_is_stale(self, harness: Harness) -> None:
        fence, early = await harness.in_office(), await harness.add("early", due_in=harness.ttl)
        now = await harness.add("now")
        done = await harness.schedules.fire(fence, [firing(early), firing(now)])
        assert done == Fired(fired=1, stale=1)
        assert await harness.the("early") == early
        await harness.advance(harness.ttl)
        assert await harness.schedules.fire(fence, [firing(early)]) == Fired(fired=1)

    async def test_firing_that_is_handed_in_ahead_lands_at_its_moment(
        self, harness: Harness
    ) -> None:
        fence, moment = await harness.in_office(), await harness.now()
        moment += timedelta(seconds=LONGEST_WAIT / 2)
        [schedule] = await harness.schedules.change([adding("a", moment)])
        fire = asyncio.create_task(harness.schedules.fire(fence, [firing(schedule)], at=moment))
        while not fire.done():
            seen, now = await harness.runs.find(), await harness.now()
            assert not seen or now >= moment
            await harness.advance(LONGEST_WAIT / 10)
            await turn()
        assert await fire == Fired(fired=1)
        [line] = await harness.schedules.occurrences("a")
        assert line.recorded_at >= moment
        assert await harness.now() >= moment

    async def test_nobody_waits_for_a_moment_that_is_far_away(self, harness: Harness) -> None:
        """The store's clock was set back, say."""
        fence, schedule = await harness.in_office(), await harness.add("a", due_in=1e6)
        plans = [firing(schedule)]
        fire = asyncio.create_task(harness.schedules.fire(fence, plans, at=schedule.next_due))
        while not fire.done():
            await harness.advance(LONGEST_WAIT)
            await asyncio.wait([fire], timeout=0.01)
        assert await fire == Fired(stale=1)

    async def test_stale_firings_leave_the_others_alone(self, harness: Harness) -> None:
        fence = await harness.in_office()
        stale, good = await harness.add("stale"), await harness.add("good")
        await harness.schedules.change([replacing(stale, reason="edited")])
        done = await harness.schedules.fire(fence, [firing(stale), firing(good)])
        assert done == Fired(fired=1, stale=1)
        assert [run.schedule for run in await harness.runs.find()] == ["good"]

    async def test_missed_stretch_is_one_row(self, harness: Harness) -> None:
        fence, schedule = await harness.in_office(2), await harness.add("a")
        first = schedule.next_nominal
        assert first is not None
        last, nominal = first + timedelta(days=3), first + timedelta(days=4)
        missed = Missed(first, last, "nobody was there")
        done = await harness.schedules.fire(
            fence, [firing(schedule, nominal=nominal, missed=missed)]
        )
        assert done == Fired(fired=1, missed=1)
        fired, line = await harness.schedules.occurrences("a")
        assert (fired.state, fired.nominal) == (OccurrenceState.FIRED, nominal)
        assert (line.state, line.reason) == (OccurrenceState.MISSED, "nobody was there")
        assert (line.nominal, line.last, line.term) == (first, last, 2)

    async def test_many_firings_are_one_call(self, harness: Harness) -> None:
        fence, now = await harness.in_office(), await harness.now()
        added = await harness.schedules.change([adding(f"s{i}", now) for i in range(300)])
        assert (await harness.schedules.fire(fence, [firing(s) for s in added])).fired == 300
        assert len(await harness.runs.find(limit=1_000)) == 300
        assert (await harness.schedules.due(10)).schedules == []

    async def test_fault_sets_the_schedule_aside_with_its_reason(self, harness: Harness) -> None:
        fence = await harness.in_office()
        broken, good = await harness.add("broken"), await harness.add("good")
        fault = Fault(broken.uid, broken.version, "cannot be read")
        await harness.schedules.fire(fence, [firing(good)], [fault])
        aside = await harness.the("broken")
        assert (aside.active, aside.reason) == (False, "cannot be read")
        assert [run.schedule for run in await harness.runs.find()] == ["good"]

    async def test_fault_of_an_older_version_changes_nothing(self, harness: Harness) -> None:
        fence, broken = await harness.in_office(), await harness.add("broken")
        [mended] = await harness.schedules.change([replacing(broken, reason=None)])
        await harness.schedules.fire(fence, [], [Fault(broken.uid, broken.version, "wrong")])
        assert await harness.the("broken") == mended

    async def test_fault_until_puts_the_schedule_off_with_its_reason(
        self, harness: Harness
    ) -> None:
        fence, slow = await harness.in_office(), await harness.add("slow")
        assert slow.next_nominal is not None
        until = slow.next_nominal + timedelta(seconds=60)
        fault = Fault(slow.uid, slow.version, "put off", until, slow.next_nominal)
        await harness.schedules.fire(fence, [], [fault])
        off = await harness.the("slow")
        assert (off.active, off.reason, off.next_due) == (True, "put off", until)
        assert (off.next_nominal, off.version) == (slow.next_nominal, slow.version)
        assert (await harness.schedules.due(10)).schedules == []

    async def test_schedule_that_has_moved_on_is_not_put_off(self, harness: Harness) -> None:
        """Its firing has landed after all. It would be due before its next time."""
        fence, slow = await harness.in_office(), await harness.add("slow")
        assert slow.next_nominal is not None
        later = slow.next_nominal + timedelta(days=1)
        await harness.schedules.fire(fence, [firing(slow, next_nominal=later)])
        moved, until = await harness.the("slow"), slow.next_nominal + timedelta(seconds=60)
        fault = Fault(slow.uid, slow.version, "put off", until, slow.next_nominal)
        await harness.schedules.fire(fence, [], [fault])
        assert await harness.the("slow") == moved

    async def test_schedule_that_has_its_first_plan_is_not_put_off(self, harness: Harness) -> None:
        """As above: of one that had no plan yet."""
        fence, now = await harness.in_office(), await harness.now()
        [new] = await harness.schedules.change([replace(adding("new", None), next_due=now)])
        first = now + timedelta(seconds=30)
        plan = Firing(new.uid, new.version, None, (), None, first, first)
        assert (await harness.schedules.fire(fence, [plan])).stale == 0
        planned, until = await harness.the("new"), now + timedelta(seconds=60)
        await harness.schedules.fire(
            fence, [], [Fault(new.uid, new.version, "put off", until, new.next_nominal)]
        )
        assert await harness.the("new") == planned

    # -- run now --------------------------------------------------------------------------------

    async def test_run_now_adds_a_manual_run_that_is_due(self, harness: Harness) -> None:
        run = await harness.waiting_run("a", kwargs='{"n":1}')
        assert (run.kind, run.schedule, run.arguments) == (Kind.MANUAL, "a", '{"n":1}')
        [line] = await harness.schedules.occurrences("a")
        assert (line.kind, line.state, line.run_id) == (Kind.MANUAL, OccurrenceState.FIRED, run.id)
        assert [r.id for r in (await harness.runs.claim("node", [TASK], 1)).runs] == [run.id]

    async def test_run_now_with_the_same_key_gives_the_same_run(self, harness: Harness) -> None:
        run = await harness.waiting_run("a", "key", overlap=Overlap.ALLOW)
        other = await harness.another()
        assert await other.schedules.run_now("a", "key") == (run.id, False)
        claimed = (await harness.runs.claim("node", [TASK], 9)).runs[0]
        await harness.finish([Result(run.id, claimed.attempt, "node", RunState.SUCCEEDED)])
        assert await harness.schedules.run_now("a", "key") == (run.id, False)
        assert len(await harness.runs.find()) == 1

    async def test_keys_of_run_now_are_per_schedule(self, harness: Harness) -> None:
        first, second = await harness.waiting_run("a", "key"), await harness.waiting_run("b", "key")
        assert first.id != second.id
        assert (first.schedule, second.schedule) == ("a", "b")

    async def test_simultaneous_run_nows_with_one_key_give_one_run(self, harness: Harness) -> None:
        backends = await harness.backends(4)
        await harness.schedules.change([adding("a", None, overlap=Overlap.ALLOW)])
        answers = await together(*(b.schedules.run_now("a", "key") for b in backends))
        assert len({run_id for run_id, _ in answers}) == 1
        assert sorted(new for _, new in answers) == [False, False, False, True]

    async def test_run_now_that_overlaps_is_recorded_as_skipped(self, harness: Harness) -> None:
        await harness.waiting_run("a", "first")
        assert await harness.schedules.run_now("a", "second") == (None, True)
        assert await harness.schedules.run_now("a", "second") == (None, False)
        lines = await harness.schedules.occurrences("a")
        assert sorted(str(line.state) for line in lines) == ["fired", "skipped"]
        assert len(await harness.runs.find()) == 1

    async def test_run_now_leaves_the_plan_alone(self, harness: Harness) -> None:
        schedule = await harness.add("a", due_in=harness.ttl * 10)
        await harness.schedules.run_now("a", "key")
        assert await harness.the("a") == schedule

    async def test_run_now_of_an_unknown_schedule_is_not_found(self, harness: Harness) -> None:
        with pytest.raises(NotFound):
            await harness.schedules.run_now("never", "key")

    # -- occurrences ----------------------------------------------------------------------------

    async def test_occurrences_are_newest_first_and_limited(self, harness: Harness) -> None:
        fence, now = await harness.in_office(), await harness.now()
        await harness.add("other")
        moments = [now - timedelta(microseconds=4 - i) for i in range(4)]
        [schedule] = await harness.schedules.change([adding("a", moments[0])])
        for moment in moments[1:]:
            await harness.schedules.fire(fence, [firing(schedule, next_nominal=moment)])
            schedule = await harness.the("a")
        lines = await harness.schedules.occurrences("a")
        assert [line.nominal for line in lines] == moments[2::-1]
        assert [o.nominal for o in await harness.schedules.occurrences("a", limit=1)] == [
            moments[2]
        ]
        assert await harness.schedules.occurrences("never") == []
