"""Clauses about what emits: schedules instead of a run, and runs when they succeed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tenure.errors import Fenced
from tenure.model import (
    Content,
    Fired,
    Kind,
    Missed,
    OccurrenceState,
    Planned,
    Result,
    RunRecord,
    RunState,
    Schedule,
    occurrence_event,
)
from tenure.process.clock import to_micros
from tenure.testing.contract.events import event, ids
from tenure.testing.contract.harness import Harness, firing, replacing

CONTENT = Content("ledger", "MonthEnded", '{"month":1}', "books", '{"x":"y"}')


class EmittingContract:
    """The schedule "a" emits."""

    async def test_firing_stores_the_event_and_moves_on(self, harness: Harness) -> None:
        fence = await harness.in_office(4, "ann")
        schedule = await emitting(harness)
        nominal = schedule.next_nominal
        assert nominal is not None
        [due] = (await harness.schedules.due(5)).schedules
        assert due.target == "event"
        later = nominal + timedelta(seconds=60)
        trace = f"00-{7:032x}-{9:016x}-01"
        plan = [firing(due, next_nominal=later)]
        assert await harness.schedules.fire(fence, plan, traceparent=trace) == Fired(fired=1)
        await harness.sequenced(fence)
        [made] = await harness.events.read("ledger")
        assert made.id == occurrence_event(schedule.uid, Kind.PLANNED, to_micros(nominal))
        assert (made.type, made.data, made.key) == ("MonthEnded", '{"month":1}', "books")
        assert (made.headers, made.subject, made.time) == ({"x": "y"}, "a", nominal)
        assert made.traceparent == trace
        [line] = await harness.schedules.occurrences("a")
        assert (line.state, line.nominal, line.run_id) == (OccurrenceState.FIRED, nominal, None)
        assert await harness.runs.find() == []
        moved = await harness.the("a")
        assert (moved.next_nominal, moved.spec.event) == (later, CONTENT)

    async def test_same_nominal_is_one_event(self, harness: Harness) -> None:
        fence, schedule = await harness.in_office(), await emitting(harness)
        plan = [firing(schedule, next_nominal=await harness.now() + timedelta(seconds=60))]
        assert (await harness.schedules.fire(fence, plan)).fired == 1
        assert await harness.schedules.fire(fence, plan) == Fired(stale=1)
        assert len(await harness.events.find()) == 1

    async def test_former_leader_emits_nothing(self, harness: Harness) -> None:
        former, schedule = await harness.in_office(1, "ann"), await emitting(harness)
        await harness.in_office(2, "bob")
        with pytest.raises(Fenced):
            await harness.schedules.fire(former, [firing(schedule)])
        assert await harness.events.find() == []
        assert await harness.the("a") == schedule

    async def test_firing_for_another_target_is_stale(self, harness: Harness) -> None:
        fence = await harness.in_office()
        emits, runs = await emitting(harness), await harness.add("b")
        wrong = [firing(emits)._replace(target="task"), firing(runs)._replace(target="event")]
        assert await harness.schedules.fire(fence, wrong) == Fired(stale=2)
        assert await harness.events.find() == []
        assert await harness.runs.find() == []

    async def test_tasks_and_events_fire_in_one_transaction(self, harness: Harness) -> None:
        fence = await harness.in_office()
        emits, runs = await emitting(harness), await harness.add("b")
        later = await harness.now() + timedelta(seconds=60)
        firings = [firing(schedule, next_nominal=later) for schedule in (emits, runs)]
        assert await harness.schedules.fire(fence, firings) == Fired(fired=2)
        assert len(await harness.events.find()) == 1
        [run] = await harness.runs.find()
        assert run.schedule == "b"

    async def test_caught_up_events_keep_their_order(self, harness: Harness) -> None:
        fence, schedule = await harness.in_office(), await emitting(harness)
        first = schedule.next_nominal
        assert first is not None
        times = [first - timedelta(seconds=60 - n) for n in range(5)]
        missed = Missed(first - timedelta(seconds=90), first - timedelta(seconds=80), "why")
        plan = firing(schedule, missed=missed)._replace(
            occurrences=tuple(Planned(time, time) for time in times)
        )
        assert await harness.schedules.fire(fence, [plan]) == Fired(fired=5, missed=1)
        await harness.sequenced(fence)
        read = await harness.events.read("ledger")
        assert [each.time for each in read] == times
        numbers = [each.key_number for each in read]
        assert numbers == list(range(numbers[0], numbers[0] + 5))
        states = {line.state for line in await harness.schedules.occurrences("a")}
        assert states == {OccurrenceState.FIRED, OccurrenceState.MISSED}

    async def test_open_run_does_not_skip_an_event(self, harness: Harness) -> None:
        """It waits under the schedule's lock key since before that emitted."""
        fence, run = await harness.in_office(), await harness.waiting_run("a")
        old, nominal = await harness.the("a"), await harness.now()
        spec = replace(old.spec, task="", event=CONTENT)
        change = replacing(old, spec=spec, next_nominal=nominal, next_due=nominal)
        [changed] = await harness.schedules.change([change])
        assert await harness.schedules.fire(fence, [firing(changed)]) == Fired(fired=1)
        assert (await harness.run(run.id)).state is RunState.WAITING

    async def test_run_now_emits(self, harness: Harness) -> None:
        fence, schedule = await harness.in_office(), await emitting(harness, due_in=harness.ttl)
        assert await harness.schedules.run_now("a", "key") == (None, True)
        assert await harness.schedules.run_now("a", "key") == (None, False)
        await harness.sequenced(fence)
        [made] = await harness.events.read("ledger")
        assert made.id == occurrence_event(schedule.uid, Kind.MANUAL, "key")
        [line] = await harness.schedules.occurrences("a")
        assert (line.kind, line.state, line.run_id) == (Kind.MANUAL, OccurrenceState.FIRED, None)

    async def test_backfill_emits_in_order_and_once(self, harness: Harness) -> None:
        fence, schedule = await harness.in_office(), await emitting(harness, due_in=harness.ttl)
        now = await harness.now()
        times = [now - timedelta(seconds=50 - n) for n in range(3)]
        assert await harness.schedules.backfill("a", times, dry_run=True) == times
        assert await harness.events.find() == []
        assert await harness.schedules.backfill("a", times) == times
        assert await harness.schedules.backfill("a", times) == []
        await harness.sequenced(fence)
        read = await harness.events.read("ledger")
        assert [each.time for each in read] == times
        expected = [
            occurrence_event(schedule.uid, Kind.BACKFILL, to_micros(time)) for time in times
        ]
        assert ids(read) == expected
        assert await harness.runs.find() == []

    async def test_what_is_emitted_can_be_changed(self, harness: Harness) -> None:
        old = await emitting(harness)
        new = Content("audit", "Ended", "null")
        await harness.schedules.change([replacing(old, spec=replace(old.spec, event=new))])
        assert (await harness.the("a")).spec.event == new

    # -- results ----------------------------------------------------------------------------------

    async def test_events_of_a_success_are_stored_with_it(self, harness: Harness) -> None:
        fence, run = await harness.in_office(), await harness.claimed_run("b")
        result = ending(run, RunState.SUCCEEDED, "1", "2")
        assert await harness.finish([result]) == [True]
        assert await harness.finish([result]) == [True]
        await harness.sequenced(fence)
        assert ids(await harness.events.read("ledger")) == ["1", "2"]

    async def test_other_results_emit_nothing(self, harness: Harness) -> None:
        for name, state in (
            ("b", RunState.FAILED),
            ("c", RunState.WAITING),
            ("d", RunState.CANCELLED),
        ):
            run = await harness.claimed_run(name)
            assert await harness.finish([ending(run, state, name)]) == [True]
        assert await harness.events.find() == []

    async def test_result_of_a_former_claim_emits_nothing(self, harness: Harness) -> None:
        run = await harness.claimed_run("b")
        assert await harness.finish([ending(run, RunState.WAITING)]) == [True]
        [again] = (await harness.runs.claim("other", ["b"], 1)).runs
        assert await harness.finish([ending(run, RunState.SUCCEEDED, "former")]) == [False]
        assert await harness.finish([ending(again, RunState.SUCCEEDED, "present")]) == [True]
        assert await harness.finish([ending(run, RunState.SUCCEEDED, "former")]) == [False]
        assert ids(await harness.events.find()) == ["present"]


async def emitting(harness: Harness, name: str = "a", due_in: float = 0.0) -> Schedule:
    return await harness.add(name, due_in, task="", event=CONTENT)


def ending(run: RunRecord, state: RunState, *identities: str) -> Result:
    events = tuple(event(each, "k") for each in identities)
    return Result(run.id, run.claim, run.node or "", state, events=events)
