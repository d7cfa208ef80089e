"""Clauses of `SummaryStore`: each end of a run is added once, in the order of time."""

from __future__ import annotations

from datetime import datetime

import pytest

from tenure.errors import Fenced
from tenure.model import (
    BUCKET,
    CLASSES,
    Ended,
    Result,
    RunState,
    ScheduleSummary,
    first_of,
    lateness_class,
)
from tenure.testing.contract.harness import Harness

LONG = 10 * BUCKET


class SummaryContract:
    """Summaries of schedules, and counts by time and lateness."""

    async def test_summaries_are_what_adding_the_ended_runs_one_by_one_gives(
        self, harness: Harness
    ) -> None:
        fence, summaries = await harness.in_office(), harness.backend.summaries
        ends = [RunState.FAILED, RunState.SUCCEEDED, RunState.LOST, RunState.CANCELLED]
        for number, state in enumerate(ends):
            await _ended(harness, "a" if number % 2 else "b", state)
        await harness.waiting_run("waits")
        steps = [await summaries.advance(fence, 3, 0.0), await summaries.advance(fence, 3, 0.0)]
        assert [(step.count, step.more) for step in steps] == [(3, True), (1, False)]
        assert (await summaries.advance(fence, 3, 0.0)).count == 0

        runs = [run for run in await harness.runs.find() if run.finished_at is not None]
        expected: dict[int, ScheduleSummary] = {}
        for run in sorted(runs, key=lambda run: (run.finished_at, run.id)):
            assert run.finished_at is not None
            assert run.uid is not None
            late = lateness_class(run.due, run.claimed_at, run.attempt)
            end = Ended(run.id, run.uid, run.state, run.finished_at, late)
            before = expected.get(run.uid)
            expected[run.uid] = first_of(end, run.uid) if before is None else before.after(end)
        uids = [schedule.uid for schedule in (await harness.schedules.find()).values()]
        assert await summaries.of(uids) == expected
        assert [expected[(await harness.the(name)).uid].failing for name in "ab"] == [False, True]
        buckets = await summaries.buckets(LONG)
        assert sum(map(sum, (bucket.ended for bucket in buckets))) == len(ends)
        assert sum(sum(bucket.ended[:CLASSES]) for bucket in buckets) == len(ends)
        assert await summaries.position() == max(run.finished_at for run in runs if run.finished_at)

    async def test_run_that_ended_less_than_the_lag_ago_is_added_later(
        self, harness: Harness
    ) -> None:
        fence, summaries = await harness.in_office(), harness.backend.summaries
        assert await summaries.position() is None
        await _ended(harness, "a", RunState.SUCCEEDED)
        assert (await summaries.advance(fence, 10, LONG)).count == 0
        await harness.advance(harness.ttl)
        assert (await summaries.advance(fence, 10, harness.ttl / 2)).count == 1

    async def test_run_that_is_retried_counts_again_when_it_ends_again(
        self, harness: Harness
    ) -> None:
        fence, summaries = await harness.in_office(), harness.backend.summaries
        run = await _ended(harness, "a", RunState.FAILED)
        assert (await summaries.advance(fence, 10, 0.0)).count == 1
        await harness.runs.retry([run])
        await harness.advance(harness.ttl / 10)
        assert (await summaries.advance(fence, 10, 0.0)).count == 0
        await _end(harness, "a", RunState.SUCCEEDED)
        assert (await summaries.advance(fence, 10, 0.0)).count == 1
        [known] = (await summaries.of([(await harness.the("a")).uid])).values()
        assert not known.failing
        assert sum(known.late) == 1
        assert sum(sum(bucket.ended) for bucket in await summaries.buckets(LONG)) == 2

    async def test_next_leader_goes_on_where_the_last_one_ended(self, harness: Harness) -> None:
        first, other = await harness.in_office(1), (await harness.another()).summaries
        await _ended(harness, "a", RunState.FAILED)
        assert (await harness.backend.summaries.advance(first, 10, 0.0)).count == 1
        second = await harness.in_office(2, "bob")
        await _ended(harness, "a", RunState.SUCCEEDED)
        for call in (
            harness.backend.summaries.advance(first, 10, 0.0),
            harness.backend.summaries.prune(first, 0.0),
        ):
            with pytest.raises(Fenced):
                await call
        assert (await other.advance(second, 10, 0.0)).count == 1
        assert sum(sum(bucket.ended) for bucket in await other.buckets(LONG)) == 2

    async def test_summary_goes_with_its_schedule_and_stays_when_runs_are_pruned(
        self, harness: Harness
    ) -> None:
        fence, summaries = await harness.in_office(), harness.backend.summaries
        await _ended(harness, "a", RunState.FAILED)
        await summaries.advance(fence, 10, 0.0)
        uid = (await harness.the("a")).uid
        known = await summaries.of([uid])
        await harness.advance(harness.ttl)
        assert (await harness.runs.prune(None, harness.ttl / 2, 10)).count
        assert await summaries.of([uid]) == known != {}
        await harness.schedules.remove("a")
        assert await summaries.of([uid]) == {}

    async def test_old_buckets_are_pruned(self, harness: Harness) -> None:
        fence, summaries = await harness.in_office(), harness.backend.summaries
        await _ended(harness, "a", RunState.SUCCEEDED)
        await summaries.advance(fence, 10, 0.0)
        assert await summaries.prune(fence, LONG) == 0
        [bucket] = await summaries.buckets(LONG)
        now: datetime = await harness.backend.now()
        assert 0 <= (now - bucket.begins).total_seconds() < 2 * BUCKET
        assert await summaries.prune(fence, -2.0 * BUCKET) == 1
        assert await summaries.buckets(LONG) == []


async def _ended(harness: Harness, name: str, state: RunState) -> int:
    """A run of this schedule that has ended so: its id."""
    await harness.waiting_run(name, str(len(await harness.runs.find())), task=name)
    return await _end(harness, name, state)


async def _end(harness: Harness, name: str, state: RunState) -> int:
    [run] = (await harness.runs.claim("node", [name], 1)).runs
    assert await harness.finish([Result(run.id, run.claim, "node", state)]) == [True]
    return run.id
