"""Clauses of `ScheduleStore.fire`: what comes due while a run of its lock key is unfinished."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tenure.backends.base import LONGEST_WAIT
from tenure.model import Fired, Firing, Missed, OccurrenceState, Overlap, Planned, Result, RunState
from tenure.testing.contract.harness import TASK, Harness, adding, firing, together, turn

_INSTANT = timedelta(microseconds=1)


def _twice(one: Firing) -> Firing:
    """What is caught up: another occurrence after the one that it has."""
    [(nominal, due)] = one.occurrences
    return one._replace(occurrences=(*one.occurrences, Planned(nominal + _INSTANT, due + _INSTANT)))


class OverlapContract:
    """Skip, queue, allow."""

    @pytest.mark.parametrize("state", [RunState.WAITING, RunState.CLAIMED])
    async def test_overlap_skip_records_the_occurrence_as_skipped(
        self, harness: Harness, state: RunState
    ) -> None:
        fence, schedule = await harness.in_office(), await harness.add("a")
        later = await harness.now() + timedelta(seconds=harness.ttl)
        await harness.schedules.fire(fence, [firing(schedule, next_nominal=later)])
        await harness.advance(harness.ttl)
        if state is RunState.CLAIMED:
            await harness.runs.claim("node", [TASK], 1)
        moved = await harness.the("a")
        assert await harness.schedules.fire(fence, [firing(moved)]) == Fired(skipped=("a",))
        skipped = (await harness.schedules.occurrences("a"))[0]
        assert (skipped.nominal, skipped.state) == (later, OccurrenceState.SKIPPED)
        assert skipped.reason
        assert skipped.run_id is None
        assert (await harness.the("a")).next_nominal is None
        assert [run.state for run in await harness.runs.find(schedule="a")] == [state]

    async def test_overlap_skip_fires_again_once_the_run_has_ended(self, harness: Harness) -> None:
        fence, run = await harness.in_office(), await harness.claimed_run("first", lock="shared")
        await harness.finish([Result(run.id, run.attempt, "node", RunState.FAILED)])
        schedule = await harness.add("a", lock="shared")
        assert await harness.schedules.fire(fence, [firing(schedule)]) == Fired(fired=1)

    async def test_what_ends_before_the_moment_does_not_overlap(self, harness: Harness) -> None:
        """However early the firing was handed in."""
        fence = await harness.in_office()

        async def ended_in_time(name: str) -> bool:
            run = await harness.claimed_run(f"first of {name}", lock=name)
            moment = await harness.now() + timedelta(seconds=LONGEST_WAIT / 2)
            [schedule] = await harness.schedules.change([adding(name, moment, lock=name)])

            async def end() -> bool:
                await turn()
                await harness.finish([Result(run.id, run.attempt, "node", RunState.SUCCEEDED)])
                in_time = await harness.now() < moment
                await harness.advance(LONGEST_WAIT)
                return in_time

            fire = harness.schedules.fire(fence, [firing(schedule)], at=moment)
            done, in_time = await together(fire, end())
            if done == Fired(stale=1):  # it was not judged before the moment
                done = await harness.schedules.fire(fence, [firing(schedule)])
            assert not in_time or done == Fired(fired=1)
            return bool(in_time)

        for number in range(20):  # a busy machine may not be done with the run by then
            if await ended_in_time(f"a{number}"):
                return
        pytest.skip("this machine is too busy to end a run before the moment comes")

    async def test_overlap_skip_looks_at_the_lock_not_the_schedule(self, harness: Harness) -> None:
        fence = await harness.in_office()
        await harness.waiting_run("first", lock="shared")
        same, other = await harness.add("same", lock="shared"), await harness.add("other")
        done = await harness.schedules.fire(fence, [firing(same), firing(other)])
        assert done == Fired(fired=1, skipped=("same",))

    async def test_of_one_lock_key_the_first_fires_and_the_others_are_skipped(
        self, harness: Harness
    ) -> None:
        """The first of the call, whatever else its firing says."""
        fence, names = await harness.in_office(), ("third", "first", "second", "alone")
        locks = ("shared", "shared", "shared", None)
        added = {n: await harness.add(n, -9.0, lock=k) for n, k in zip(names, locks, strict=True)}
        at = added["first"].next_nominal
        assert at is not None
        late = firing(added["first"], missed=Missed(at, at, "late"), nominal=at + _INSTANT)
        others = [firing(added[name]) for name in ("second", "alone", "third")]
        done = await harness.schedules.fire(fence, [late, *others])
        assert (done.fired, done.missed, done.stale) == (2, 1, 0)
        assert sorted(done.skipped) == ["second", "third"]
        for name in ("second", "third"):
            [line] = await harness.schedules.occurrences(name)
            assert (line.state, line.run_id) == (OccurrenceState.SKIPPED, None)
            assert line.reason
            assert (await harness.the(name)).next_nominal is None
        assert {run.schedule for run in await harness.runs.find()} == {"first", "alone"}

    async def test_what_queues_under_a_lock_key_skips_only_what_comes_after_it(
        self, harness: Harness
    ) -> None:
        fence = await harness.in_office()
        before, after = await harness.add("before", lock="x"), await harness.add("after", lock="x")
        queued = [await harness.add(n, lock="x", overlap=Overlap.QUEUE) for n in ("one", "two")]
        allowed = await harness.add("allowed", lock="x", overlap=Overlap.ALLOW)
        order = [allowed, before, *queued, after]
        done = await harness.schedules.fire(fence, [firing(schedule) for schedule in order])
        assert done == Fired(fired=4, skipped=("after",))

    async def test_what_is_caught_up_does_not_skip_itself_but_others(
        self, harness: Harness
    ) -> None:
        fence = await harness.in_office()
        first, second = [await harness.add(name, -9.0, lock="x") for name in ("a", "b")]
        both = [_twice(firing(schedule)) for schedule in (first, second)]
        assert await harness.schedules.fire(fence, both) == Fired(fired=2, skipped=("b", "b"))
        assert len((await harness.runs.claim("node", [TASK], 9)).runs) == 1

    async def test_what_is_not_fired_skips_nobody(self, harness: Harness) -> None:
        """It is stale, on record already, or only moves on."""
        fence = await harness.in_office()
        stale, known, moves, fires = [await harness.add(n, -9.0, lock="x") for n in "abcd"]
        assert known.next_nominal is not None
        await harness.schedules.fire(fence, [firing(known, next_nominal=known.next_nominal)])
        [run] = (await harness.runs.claim("node", [TASK], 9)).runs
        await harness.finish([Result(run.id, run.claim, "node", RunState.SUCCEEDED)])
        firings = [
            firing(stale)._replace(version=99),
            firing(known),
            firing(moves)._replace(occurrences=()),
            firing(fires),
        ]
        assert await harness.schedules.fire(fence, firings) == Fired(fired=1, stale=1)

    @pytest.mark.parametrize("overlap", [Overlap.QUEUE, Overlap.ALLOW])
    async def test_overlap_queue_and_allow_add_another_run(
        self, harness: Harness, overlap: Overlap
    ) -> None:
        fence, schedule = await harness.in_office(), await harness.add("a", -9.0, overlap=overlap)
        assert schedule.next_nominal is not None
        second = schedule.next_nominal + timedelta(microseconds=1)
        await harness.schedules.fire(fence, [firing(schedule, next_nominal=second)])
        assert (await harness.schedules.fire(fence, [firing(await harness.the("a"))])).fired == 1
        claimed = (await harness.runs.claim("node", [TASK], 10)).runs
        assert len(claimed) == (1 if overlap is Overlap.QUEUE else 2)
        assert claimed[0].nominal == schedule.next_nominal
