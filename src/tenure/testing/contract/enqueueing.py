"""Clauses of `RunStore.enqueue`: runs that belong to no schedule."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tenure.backends.base import RUNS
from tenure.model import (
    Kind,
    NewRun,
    OnCrash,
    Overlap,
    Recovered,
    Result,
    RunRecord,
    RunState,
)
from tenure.testing.contract.harness import TASK, Harness, adding, together
from tenure.testing.contract.joining import join


def asked(key: str = "key", **options: Any) -> NewRun:
    return NewRun(options.pop("task", TASK), key, **options)


async def enqueue(harness: Harness, key: str = "key", **options: Any) -> RunRecord:
    """A run that is new."""
    run, new = await harness.runs.enqueue(asked(key, **options))
    assert new
    return run


async def take(harness: Harness, limit: int = 9, node: str = "node") -> list[int]:
    return [run.id for run in (await harness.runs.claim(node, [TASK], limit)).runs]


class EnqueueContract:
    """Asked for once, and from then on as any other."""

    async def test_run_waits_as_it_was_asked_for(self, harness: Harness) -> None:
        before = await harness.now()
        run = await enqueue(
            harness,
            kwargs='{"user":"ü"}',
            tenant="acme",
            lock="user",
            priority=-3,
            timeout=1.5,
            retries=2,
            on_crash=OnCrash.ABANDON,
            traceparent=f"00-{7:032x}-{9:016x}-01",
        )
        assert run.traceparent == f"00-{7:032x}-{9:016x}-01"
        assert (run.schedule, run.uid, run.kind) == (None, None, Kind.ENQUEUED)
        assert (run.task, run.arguments, run.tenant, run.lock) == (
            TASK,
            '{"user":"ü"}',
            "acme",
            "user",
        )
        policy = run.priority, run.timeout, run.retries, run.on_crash
        assert policy == (-3, 1.5, 2, OnCrash.ABANDON)
        assert (run.state, run.attempt, run.claim, run.term) == (RunState.WAITING, 0, 0, 0)
        assert run.unreadable is None
        assert before <= run.nominal == run.due == run.created_at <= await harness.now()
        other = await harness.another()
        assert await other.runs.find([run.id]) == [run]
        assert await other.runs.find(state=RunState.WAITING) == [run]

    async def test_run_belongs_to_no_schedule(self, harness: Harness) -> None:
        await harness.add("a", due_in=harness.ttl)
        run = await enqueue(harness)
        assert await harness.runs.find(schedule="a") == []
        assert await harness.schedules.occurrences("a") == []
        assert list(await harness.schedules.find()) == ["a"]
        assert (await harness.schedules.backlog("any")).waiting == 1
        assert await harness.schedules.remove("a")
        assert await harness.run(run.id) == run

    async def test_run_is_executed_and_ends_as_any_other(self, harness: Harness) -> None:
        run = await enqueue(harness, retries=1)
        [claimed] = (await harness.runs.claim("node", [TASK], 5)).runs
        assert (claimed.id, claimed.node, claimed.attempt) == (run.id, "node", 1)
        again = Result(run.id, 1, "node", RunState.WAITING, "oh", delay=0.0, failed=True)
        assert await harness.finish([again]) == [True]
        [claimed] = (await harness.runs.claim("other", [TASK], 5)).runs
        assert (claimed.attempt, claimed.failures) == (2, 1)
        done = Result(run.id, claimed.claim, "other", RunState.SUCCEEDED)
        assert await harness.finish([done]) == [True]
        assert (await harness.run(run.id)).state is RunState.SUCCEEDED
        assert await take(harness) == []

    async def test_run_of_a_task_that_nobody_has_waits(self, harness: Harness) -> None:
        run = await enqueue(harness, task="of newer code")
        assert await take(harness) == []
        assert (await harness.runs.claim("newer", ["of newer code"], 5)).runs[0].id == run.id

    # -- when -----------------------------------------------------------------------------------

    async def test_delay_counts_from_now(self, harness: Harness) -> None:
        run = await enqueue(harness, delay=harness.ttl)
        assert run.nominal == run.due == run.created_at + timedelta(seconds=harness.ttl)
        batch = await harness.runs.claim("node", [TASK], 5)
        assert (batch.runs, batch.next_due) == ([], run.due)
        await harness.advance(harness.ttl)
        assert await take(harness) == [run.id]

    async def test_moment_is_its_nominal_time(self, harness: Harness) -> None:
        at = await harness.now() + timedelta(seconds=harness.ttl)
        run = await enqueue(harness, at=at)
        assert (run.nominal, run.due) == (at, at)
        assert await take(harness) == []
        await harness.advance(harness.ttl)
        assert await take(harness) == [run.id]

    async def test_moment_that_has_passed_makes_it_due_now(self, harness: Harness) -> None:
        """It does not go before all that waits."""
        first = await enqueue(harness, "first")
        await harness.advance(harness.ttl / 20)
        late = first.due - timedelta(days=400)
        second = await enqueue(harness, "second", at=late)
        assert second.nominal == late
        assert second.due == second.created_at > first.due
        assert await take(harness) == [first.id, second.id]

    # -- the same key ---------------------------------------------------------------------------

    async def test_same_key_gives_the_same_run(self, harness: Harness) -> None:
        run, other = await enqueue(harness), await harness.another()
        again = asked(kwargs='{"n":1}', delay=harness.ttl, priority=7, lock="x")
        assert await other.runs.enqueue(again) == (run, False)
        assert await harness.runs.find() == [run]

    async def test_same_key_gives_the_run_as_it_is_by_now(self, harness: Harness) -> None:
        run = await enqueue(harness)
        await take(harness)
        found, new = await harness.runs.enqueue(asked())
        assert (found.id, found.state, new) == (run.id, RunState.CLAIMED, False)
        await harness.finish([Result(run.id, 1, "node", RunState.FAILED, "oh")])
        found, new = await harness.runs.enqueue(asked())
        assert (found.id, found.state, found.error, new) == (run.id, RunState.FAILED, "oh", False)
        assert await take(harness) == []

    async def test_key_is_the_tasks_own(self, harness: Harness) -> None:
        run, other = await enqueue(harness), await enqueue(harness, task="another")
        assert run.id != other.id
        await harness.waiting_run("a", "key")  # nor is it that of a schedule's
        assert await harness.runs.enqueue(asked()) == (run, False)
        assert len(await harness.runs.find()) == 3

    async def test_of_many_who_ask_at_the_same_moment_one_adds_it(self, harness: Harness) -> None:
        stores = await harness.backends(4)
        answers = await together(*(stores[n % 4].runs.enqueue(asked()) for n in range(12)))
        assert sum(new for _, new in answers) == 1
        [run] = await harness.runs.find()
        assert {found.id for found, _ in answers} == {run.id}

    async def test_key_lasts_as_long_as_its_run(self, harness: Harness) -> None:
        fence, run = await harness.in_office(), await enqueue(harness)
        await take(harness)
        await harness.finish([Result(run.id, 1, "node", RunState.SUCCEEDED)])
        await harness.advance(harness.ttl)
        assert (await harness.runs.prune(fence, harness.ttl * 9, 100)).count == 0
        assert not (await harness.runs.enqueue(asked()))[1]
        assert (await harness.runs.prune(fence, harness.ttl / 2, 100, dry_run=True)).count == 1
        assert (await harness.runs.prune(fence, harness.ttl / 2, 100)).count == 1
        assert await harness.runs.find() == []
        assert (await enqueue(harness)).id > run.id

    async def test_run_that_is_not_over_is_not_pruned(self, harness: Harness) -> None:
        fence = await harness.in_office()
        later = await enqueue(harness, "later", delay=harness.ttl * 9)
        await enqueue(harness, "now")
        await take(harness)
        await harness.advance(harness.ttl)
        assert (await harness.runs.prune(fence, harness.ttl / 2, 100)).count == 0
        assert await harness.runs.enqueue(asked("later")) == (later, False)

    async def test_pruned_run_takes_no_schedules_history_with_it(self, harness: Harness) -> None:
        """What `backfill` has to know is about occurrences."""
        fence = await harness.in_office()
        await harness.add("a", due_in=harness.ttl * 99)
        nominal = await harness.now()
        run = await enqueue(harness)
        await take(harness)
        await harness.finish([Result(run.id, 1, "node", RunState.SUCCEEDED)])
        await harness.advance(harness.ttl)
        assert (await harness.runs.prune(fence, harness.ttl / 2, 100)).count == 1
        assert await harness.schedules.backfill("a", [nominal]) == [nominal]

    # -- beside the runs of schedules -----------------------------------------------------------

    async def test_lock_key_is_shared_with_schedules(self, harness: Harness) -> None:
        queue = {"lock": "shared", "overlap": Overlap.QUEUE}
        first = await enqueue(harness, "1", lock="shared")
        second = await harness.waiting_run("a", **queue)
        third = await enqueue(harness, "3", lock="shared")
        free = await enqueue(harness, "4")
        assert sorted(await take(harness)) == sorted([first.id, free.id])
        for run, following in ((first, second), (second, third)):
            await harness.finish([Result(run.id, 1, "node", RunState.SUCCEEDED)])
            assert await take(harness) == [following.id]
        await harness.schedules.change([adding("b", None, lock="shared")])
        assert await harness.schedules.run_now("b", "key") == (None, True)  # it skips

    async def test_priority_goes_first(self, harness: Harness) -> None:
        plain = await harness.waiting_run("a")
        low, high = (
            await enqueue(harness, "1", priority=-1),
            await enqueue(harness, "2", priority=5),
        )
        assert await take(harness) == [high.id, plain.id, low.id]

    async def test_tenants_take_turns(self, harness: Harness) -> None:
        loud = [(await enqueue(harness, str(n), tenant="loud")).id for n in range(6)]
        quiet = [(await enqueue(harness, "q", tenant="quiet")).id]
        nobody = [(await enqueue(harness, "n")).id]
        taken = await take(harness, 4)
        assert set(taken[:3]) == {loud[0], *quiet, *nobody}
        assert taken[3:] == loud[1:2]
        assert await take(harness) == loud[2:]

    async def test_run_of_a_dead_node_is_recovered(self, harness: Harness) -> None:
        fence = await harness.in_office()
        again = await enqueue(harness, "1")
        lost = await enqueue(harness, "2", on_crash=OnCrash.ABANDON)
        await take(harness, node="dead")
        assert await harness.runs.claimants() == ["dead"]
        assert await harness.runs.recover(fence, "dead", 3) == Recovered(rerun=1, lost=1)
        assert (await harness.run(lost.id)).state is RunState.LOST
        assert await take(harness) == [again.id]

    async def test_it_wakes_the_workers(self, harness: Harness) -> None:
        other, heard = await harness.another(), asyncio.Event()
        stop = harness.backend.wakeups.subscribe(RUNS, heard.set)
        await other.runs.enqueue(asked())
        assert await harness.heard(heard)
        stop()

    # -- in a transaction of the caller's own ---------------------------------------------------

    async def test_others_see_it_when_it_is_committed(self, harness: Harness) -> None:
        heard = asyncio.Event()
        lent, joined = await join(harness)
        run, new = await joined.runs.enqueue(asked())
        assert new
        assert await joined.runs.enqueue(asked()) == (run, False)
        assert await joined.runs.find([run.id]) == [run]
        assert await harness.runs.find() == []
        stop = harness.backend.wakeups.subscribe(RUNS, heard.set)
        lent.commit()
        assert await harness.heard(heard)
        stop()
        assert await harness.runs.enqueue(asked()) == (run, False)
        assert await take(harness) == [run.id]

    async def test_what_is_rolled_back_never_was(self, harness: Harness) -> None:
        lent, joined = await join(harness)
        await joined.runs.enqueue(asked())
        lent.rollback()
        assert await harness.runs.find() == []
        run = await enqueue(harness)
        assert await joined.runs.enqueue(asked()) == (run, False)
        lent.rollback()

    @pytest.mark.parametrize("committed", [True, False])
    async def test_key_of_an_open_transaction_is_waited_for(
        self, harness: Harness, committed: bool
    ) -> None:
        lent, joined = await join(harness)
        run, _ = await joined.runs.enqueue(asked())
        waiting = asyncio.ensure_future(harness.runs.enqueue(asked()))
        assert not await asyncio.wait_for(_ends(waiting), 30)
        (lent.commit if committed else lent.rollback)()
        found, new = await waiting
        assert new is not committed
        assert await harness.runs.find() == [found]
        assert not committed or found == run

    async def test_open_transaction_holds_up_nobody_else(self, harness: Harness) -> None:
        if not harness.many_writers:
            pytest.skip("this store has one writer at a time")
        lent, joined = await join(harness)
        await joined.runs.enqueue(asked(lock="x"))
        run = await enqueue(harness, "another", lock="x")
        assert await take(harness) == [run.id]
        lent.commit()
        assert await take(harness) == []
        await harness.finish([Result(run.id, 1, "node", RunState.SUCCEEDED)])
        assert len(await take(harness)) == 1


async def _ends(call: asyncio.Future[Any]) -> bool:
    """Has it an answer, after a while in which it would have had one?"""
    done, _ = await asyncio.wait([call], timeout=0.2)
    return bool(done)
