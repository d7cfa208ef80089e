"""Clauses of `RunStore.claim`: what waits behind a lock key, and never waits in vain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from tenure.model import Overlap, Planned, Result, RunRecord, RunState
from tenure.testing.contract.harness import TASK, Harness, firing, replacing

SHARED: dict[str, Any] = {"overlap": Overlap.QUEUE, "lock": "shared"}


async def take(harness: Harness, *tasks: str, limit: int = 9, node: str = "node") -> list[int]:
    batch = await harness.runs.claim(node, list(tasks) or [TASK], limit)
    return [run.id for run in batch.runs]


async def end(harness: Harness, run_id: int, **options: Any) -> None:
    """End its claim: as succeeded unless the options say otherwise."""
    run = await harness.run(run_id)
    assert run.node is not None
    state = options.pop("state", RunState.SUCCEEDED)
    result = Result(run_id, run.claim, run.node, state, **options)
    assert await harness.finish([result]) == [True]


async def one_by_one(harness: Harness, *tasks: str) -> list[int]:
    """Claim and end what waits until nothing does; of one lock key it is one at a time."""
    order: list[int] = []
    while claimed := await take(harness, *tasks):
        [run_id] = claimed
        order.append(run_id)
        await end(harness, run_id)
    return order


class QueueContract:
    """Whoever ends, leaves or jumps a queue: the next of it can be claimed."""

    async def test_key_with_two_priorities_is_claimed_in_its_order(self, harness: Harness) -> None:
        low = [(await harness.waiting_run("low", str(n), **SHARED)).id for n in range(3)]
        high = [
            (await harness.waiting_run("high", str(n), priority=5, **SHARED)).id for n in range(3)
        ]
        assert await take(harness) == [high[0]]
        low += [(await harness.waiting_run("low", "late", **SHARED)).id]
        await end(harness, high[0])
        assert await one_by_one(harness) == [*high[1:], *low]

    async def test_low_priority_is_claimed_while_the_high_one_is_not_due(
        self, harness: Harness
    ) -> None:
        """And not any more when it is."""
        fence = await harness.in_office()
        low = [(await harness.waiting_run("low", str(n), **SHARED)).id for n in range(2)]
        [high] = await fired(harness, fence, "high", [harness.ttl], priority=5, **SHARED)
        assert await take(harness) == [low[0]]
        await harness.advance(harness.ttl)
        await end(harness, low[0])
        assert await one_by_one(harness) == [high, low[1]]

    async def test_high_priority_that_comes_due_goes_first_though_nothing_happened(
        self, harness: Harness
    ) -> None:
        fence = await harness.in_office()
        [high] = await fired(harness, fence, "high", [harness.ttl], priority=5, **SHARED)
        low = (await harness.waiting_run("low", **SHARED)).id
        await harness.advance(harness.ttl)
        assert await one_by_one(harness) == [high, low]

    async def test_task_that_nobody_serves_holds_up_no_other_of_its_key(
        self, harness: Harness
    ) -> None:
        gone = [(await harness.waiting_run("gone", str(n), task="gone", **SHARED)).id for n in "ab"]
        mine = [(await harness.waiting_run("mine", str(n), task="mine", **SHARED)).id for n in "ab"]
        other = [(await harness.waiting_run("other", task="other", **SHARED)).id]
        assert await take(harness, "mine") == [mine[0]]
        assert await take(harness, "other") == []
        await end(harness, mine[0])
        assert await take(harness, "other") == other
        mine += [(await harness.waiting_run("mine", "c", task="mine", **SHARED)).id]
        await end(harness, other[0])
        assert await one_by_one(harness, "mine", "other") == mine[1:]
        assert await one_by_one(harness, "mine", "other", "gone") == gone

    async def test_task_that_comes_back_has_its_turn_in_order(self, harness: Harness) -> None:
        first = (await harness.waiting_run("a", "1", task="a", **SHARED)).id
        second = (await harness.waiting_run("b", "1", task="b", **SHARED)).id
        third = (await harness.waiting_run("a", "2", task="a", **SHARED)).id
        assert await take(harness, "b") == [second]
        await end(harness, second, state=RunState.WAITING)
        # It has begun, and goes before those that have not.
        assert await take(harness, "a") == [first]
        await end(harness, first, state=RunState.WAITING, begun=False)
        assert await one_by_one(harness, "a", "b") == [second, first, third]

    async def test_retry_waits_and_a_higher_priority_comes_and_goes(self, harness: Harness) -> None:
        low = [(await harness.waiting_run("low", str(n), **SHARED)).id for n in range(2)]
        assert await take(harness) == [low[0]]
        delay = harness.ttl * 2
        await end(harness, low[0], state=RunState.WAITING, delay=delay, failed=True)
        high = (await harness.waiting_run("high", priority=5, **SHARED)).id
        assert await take(harness) == [high]
        await end(harness, high)
        batch = await harness.runs.claim("node", [TASK], 9)
        assert (batch.runs, batch.next_due) == ([], (await harness.run(low[0])).due)
        await harness.advance(delay)
        assert await one_by_one(harness) == low

    async def test_higher_priority_that_retries_holds_up_the_lower(self, harness: Harness) -> None:
        high = (await harness.waiting_run("high", priority=5, **SHARED)).id
        assert await take(harness) == [high]
        await end(harness, high, state=RunState.WAITING, delay=harness.ttl, failed=True)
        low = (await harness.waiting_run("low", **SHARED)).id
        assert await take(harness) == []
        await harness.advance(harness.ttl)
        assert await one_by_one(harness) == [high, low]

    async def test_runs_that_are_not_due_yet_are_claimed_when_they_are(
        self, harness: Harness
    ) -> None:
        fence = await harness.in_office()
        delays = [harness.ttl * n for n in (3, 1, 2)]
        ids = await fired(harness, fence, "queue", delays, **SHARED)
        batch = await harness.runs.claim("node", [TASK], 9)
        assert (batch.runs, batch.next_due) == ([], (await harness.run(ids[1])).due)
        for expected in (ids[1], ids[2], ids[0]):
            await harness.advance(harness.ttl)
            assert await one_by_one(harness) == [expected]

    async def test_run_that_is_not_due_yet_is_overtaken_by_those_that_are(
        self, harness: Harness
    ) -> None:
        fence = await harness.in_office()
        [later] = await fired(harness, fence, "later", [harness.ttl * 2], **SHARED)
        now = (await harness.waiting_run("now", **SHARED)).id
        assert await take(harness) == [now]
        await end(harness, now)
        assert (await harness.runs.claim("node", [TASK], 9)).next_due == (
            await harness.run(later)
        ).due
        again = (await harness.waiting_run("now", "2", **SHARED)).id
        assert await take(harness) == [again]
        await harness.advance(harness.ttl * 2)
        await end(harness, again)
        assert await one_by_one(harness) == [later]

    @pytest.mark.parametrize("busy", [False, True])
    async def test_what_is_caught_up_in_one_firing_queues(
        self, harness: Harness, busy: bool
    ) -> None:
        fence = await harness.in_office()
        before = [(await harness.waiting_run("before", **SHARED)).id] if busy else []
        assert await take(harness) == before
        ids = await fired(harness, fence, "queue", [-3.0, -2.0, -1.0, 0.0], **SHARED)
        other = await fired(harness, fence, "other", [0.0, 0.0], **SHARED)
        assert await take(harness) == ([] if busy else [ids[0]])
        await end(harness, (before or ids)[0])
        assert await one_by_one(harness) == [*(ids if busy else ids[1:]), *other]

    @pytest.mark.parametrize("way", ["run now", "backfill", "fire"])
    @pytest.mark.parametrize("busy", [False, True])
    async def test_what_comes_while_the_key_is_claimed_follows(
        self, harness: Harness, way: str, busy: bool
    ) -> None:
        fence = await harness.in_office()
        first = (await harness.waiting_run("queue", "first", **SHARED)).id
        if busy:
            assert await take(harness) == [first]
        new = await more(harness, fence, "queue", way)
        if busy:
            assert await take(harness) == []
            await end(harness, first)
        assert await one_by_one(harness) == [*([] if busy else [first]), *new]

    async def test_removal_of_the_head_lets_the_next_go_on(self, harness: Harness) -> None:
        head = (await harness.waiting_run("head", **SHARED)).id
        next_ = [(await harness.waiting_run("next", str(n), **SHARED)).id for n in range(2)]
        assert await harness.schedules.remove("head")
        assert (await harness.run(head)).state is RunState.CANCELLED
        assert await one_by_one(harness) == next_

    async def test_removal_in_the_middle_of_a_queue_changes_nothing(self, harness: Harness) -> None:
        first = (await harness.waiting_run("first", **SHARED)).id
        assert await take(harness) == [first]
        await harness.waiting_run("gone", **SHARED)
        last = (await harness.waiting_run("last", **SHARED)).id
        assert await harness.schedules.remove("gone")
        assert await take(harness) == []
        await end(harness, first)
        assert await one_by_one(harness) == [last]

    @pytest.mark.parametrize("crashes", [1, 9])
    async def test_recovery_lets_the_queue_go_on(self, harness: Harness, crashes: int) -> None:
        """Whether the run of the dead node waits again, or is lost."""
        fence = await harness.in_office()
        ids = [(await harness.waiting_run("queue", str(n), **SHARED)).id for n in range(3)]
        assert await take(harness, node="dead") == [ids[0]]
        await harness.runs.recover(fence, "dead", crashes)
        assert await one_by_one(harness) == (ids[1:] if crashes == 1 else ids)

    async def test_edited_schedule_leaves_what_waits_as_it_was(self, harness: Harness) -> None:
        """Its next runs have another key, task and priority: two queues, and neither is stuck."""
        old = [(await harness.waiting_run("a", str(n), **SHARED)).id for n in range(2)]
        schedule = await harness.the("a")
        edited = replace(schedule.spec, lock="other", priority=3)
        await harness.schedules.change([replacing(schedule, spec=edited)])
        new = [(await harness.waiting_run("a", f"new {n}")).id for n in range(2)]
        assert await take(harness) == [new[0], old[0]]
        await end(harness, new[0])
        assert await take(harness) == [new[1]]
        await end(harness, old[0])
        assert await take(harness) == [old[1]]

    async def test_claim_of_many_keys_leaves_the_next_of_each(self, harness: Harness) -> None:
        queues = {
            key: [
                (await harness.waiting_run(f"{key} {n}", overlap=Overlap.QUEUE, lock=f"{key}")).id
                for n in range(3)
            ]
            for key in range(4)
        }
        for place in range(3):
            claimed = await take(harness, limit=3) + await take(harness, limit=3)
            assert sorted(claimed) == sorted(ids[place] for ids in queues.values())
            for run_id in claimed:
                await end(harness, run_id)
        assert await take(harness) == []


async def fired(
    harness: Harness, fence: Any, name: str, delays: Sequence[float], **options: Any
) -> list[int]:
    """One firing with so many occurrences, due so many seconds from now; their runs."""
    schedule = await harness.add(name, -60.0, **options)
    now, nominal = await harness.now(), schedule.next_nominal
    assert nominal is not None
    planned = tuple(
        Planned(nominal + timedelta(microseconds=place), _due(now, delay))
        for place, delay in enumerate(delays)
    )
    done = await harness.schedules.fire(fence, [firing(schedule)._replace(occurrences=planned)])
    assert done.fired == len(delays)
    return [run.id for run in _oldest_first(await harness.runs.find(schedule=name))]


async def more(harness: Harness, fence: Any, name: str, way: str) -> list[int]:
    """Two more runs of this schedule, in one of the ways in which runs come; in their order."""
    before = {run.id for run in await harness.runs.find(schedule=name)}
    now = await harness.now()
    if way == "run now":
        for key in ("one", "two"):
            assert (await harness.schedules.run_now(name, key))[1]
    elif way == "backfill":
        nominals = [now - timedelta(days=days) for days in (2, 1)]
        assert await harness.schedules.backfill(name, nominals) == nominals
    else:
        schedule = await harness.the(name)
        nominal = now - timedelta(microseconds=1)
        change = replacing(schedule, next_nominal=nominal, next_due=nominal)
        [due] = await harness.schedules.change([change])
        planned = (Planned(nominal, nominal + timedelta(microseconds=1)), Planned(now, now))
        done = await harness.schedules.fire(fence, [firing(due)._replace(occurrences=planned)])
        assert done.fired == 2
    runs = [run for run in await harness.runs.find(schedule=name) if run.id not in before]
    return [run.id for run in _oldest_first(runs)]


def _due(now: datetime, delay: float) -> datetime:
    return now + timedelta(seconds=delay)


def _oldest_first(runs: Sequence[RunRecord]) -> list[RunRecord]:
    return sorted(runs, key=lambda run: run.id)
