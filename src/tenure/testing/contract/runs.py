"""Clauses of `RunStore`: waiting, claimed by one node at a time, finished."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tenure.model import ClaimBatch, Overlap, Result, RunRecord, RunState
from tenure.testing.contract.harness import TASK, Harness, firing, together


class RunContract:
    """Claim, claimed, claimants, find."""

    # -- claim ----------------------------------------------------------------------------------

    async def test_claim_makes_the_run_this_nodes_and_counts_an_attempt(
        self, harness: Harness
    ) -> None:
        waiting = await harness.waiting_run("a")
        batch = await harness.runs.claim("node", [TASK], 5)
        [run] = batch.runs
        assert (run.id, run.state, run.node) == (waiting.id, RunState.CLAIMED, "node")
        assert (run.attempt, run.crashes) == (1, 0)
        assert run.claimed_at is not None
        other = await harness.another()
        assert await other.runs.find([run.id]) == [run]

    async def test_run_is_claimed_by_one_node(self, harness: Harness) -> None:
        run = await harness.claimed_run("a", "first")
        other = await harness.another()
        assert (await other.runs.claim("second", ["a"], 5)).runs == []
        assert (await harness.runs.claim("first", ["a"], 5)).runs == []
        assert (await harness.run(run.id)).attempt == 1

    async def test_of_many_simultaneous_claims_each_run_goes_to_one(self, harness: Harness) -> None:
        backends = await harness.backends(4)
        for i in range(30):
            await harness.waiting_run("a", str(i), overlap=Overlap.ALLOW)
        batches = await together(
            *(backends[i % 4].runs.claim(f"node {i}", [TASK], 7) for i in range(8))
        )
        ids = [run.id for batch in batches for run in batch.runs]
        assert len(ids) == len(set(ids)) == 30
        assert all(len(batch.runs) <= 7 for batch in batches)

    async def test_only_runs_of_the_given_tasks_are_claimed(self, harness: Harness) -> None:
        await harness.waiting_run("a", task="unknown here")
        known = await harness.waiting_run("b", task="known")
        assert _ids(await harness.runs.claim("node", ["known", "other"], 5)) == [known.id]
        assert _ids(await harness.runs.claim("node", [], 5)) == []

    async def test_oldest_due_is_claimed_first(self, harness: Harness) -> None:
        fence, now = await harness.in_office(), await harness.now()
        for name, hours in (("b", 2), ("a", 1), ("c", 3)):
            schedule = await harness.add(name, due_in=-3600.0 * hours)
            await harness.schedules.fire(fence, [firing(schedule)])
        claimed = (await harness.runs.claim("node", [TASK], 2)).runs
        assert [run.schedule for run in claimed] == ["c", "b"]
        assert all(run.due < now for run in claimed)

    async def test_highest_priority_is_claimed_first(self, harness: Harness) -> None:
        for name, priority in (("low", -1), ("none", 0), ("high", 5)):
            await harness.waiting_run(name, priority=priority)
        claimed = (await harness.runs.claim("node", [TASK], 5)).runs
        assert [run.schedule for run in claimed] == ["high", "none", "low"]

    async def test_run_is_not_claimed_before_it_is_due(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        again = Result(run.id, 1, "node", RunState.WAITING, delay=harness.ttl)
        assert await harness.finish([again]) == [True]
        batch = await harness.runs.claim("node", ["a"], 5)
        assert batch.runs == []
        assert batch.next_due == (await harness.run(run.id)).due
        await harness.advance(harness.ttl)
        assert _ids(await harness.runs.claim("node", ["a"], 5)) == [run.id]

    async def test_claims_of_one_lock_never_overlap(self, harness: Harness) -> None:
        older = await harness.waiting_run("a", "1", overlap=Overlap.QUEUE, lock="shared")
        newer = await harness.waiting_run("b", "1", overlap=Overlap.QUEUE, lock="shared")
        free = await harness.waiting_run("c")
        batch = await harness.runs.claim("first", [TASK], 10)
        assert sorted(_ids(batch)) == sorted([older.id, free.id])
        other = await harness.another()
        assert _ids(await other.runs.claim("second", [TASK], 10)) == []
        await harness.finish([Result(older.id, 1, "first", RunState.SUCCEEDED)])
        assert _ids(await other.runs.claim("second", [TASK], 10)) == [newer.id]

    async def test_locked_runs_do_not_use_up_the_limit(self, harness: Harness) -> None:
        """A long queue behind one lock must not starve the others."""
        for i in range(10):
            await harness.waiting_run("queue", str(i), overlap=Overlap.QUEUE)
        free = await harness.waiting_run("free")
        assert free.id in _ids(await harness.runs.claim("node", [TASK], 2))
        assert _ids(await harness.runs.claim("node", [TASK], 2)) == []

    async def test_simultaneous_claims_of_one_lock_never_overlap(self, harness: Harness) -> None:
        backends = await harness.backends(4)
        for i in range(12):
            await harness.waiting_run(f"s{i}", overlap=Overlap.QUEUE, lock="shared")
        batches = await together(
            *(b.runs.claim(f"node {i}", [TASK], 5) for i, b in enumerate(backends))
        )
        assert sum(len(batch.runs) for batch in batches) == 1

    # -- results --------------------------------------------------------------------------------

    @pytest.mark.parametrize("state", [RunState.SUCCEEDED, RunState.FAILED])
    async def test_result_ends_the_run(self, harness: Harness, state: RunState) -> None:
        run = await harness.claimed_run("a")
        error = "Traceback: ü" if state is RunState.FAILED else None
        assert await harness.finish([Result(run.id, 1, "node", state, error)]) == [True]
        done = await harness.run(run.id)
        assert (done.state, done.error, done.attempt) == (state, error, 1)
        assert done.node == "node"
        assert done.finished_at is not None
        assert await harness.runs.claimed("node") == []
        assert _ids(await harness.runs.claim("node", ["a"], 5)) == []

    async def test_run_that_is_put_back_is_claimed_again(self, harness: Harness) -> None:
        run = await harness.claimed_run("a", "first")
        result = Result(run.id, 1, "first", RunState.WAITING, "try again")
        assert await harness.finish([result]) == [True]
        waiting = await harness.run(run.id)
        assert (waiting.state, waiting.node, waiting.error) == (RunState.WAITING, None, "try again")
        assert waiting.finished_at is None
        [again] = (await harness.runs.claim("second", ["a"], 5)).runs
        assert (again.id, again.attempt, again.node, again.crashes) == (run.id, 2, "second", 0)

    async def test_late_result_is_refused(self, harness: Harness) -> None:
        """The run was taken from its node and given to another: only that one's result counts."""
        fence, run = await harness.in_office(), await harness.claimed_run("a", "frozen")
        await harness.runs.recover(fence, "frozen", 3)
        late = Result(run.id, 1, "frozen", RunState.SUCCEEDED)
        assert await harness.finish([late]) == [False]
        [again] = (await harness.runs.claim("second", ["a"], 5)).runs
        assert await harness.finish([late]) == [False]
        assert await harness.run(run.id) == again

    async def test_result_must_match_run_claim_and_node(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        done = RunState.SUCCEEDED
        wrong = [
            Result(run.id, 1, "another", done),
            Result(run.id, 2, "node", done),
            Result(run.id, 0, "node", done),
            Result(run.id + 1_000, 1, "node", done),
        ]
        assert await harness.finish(wrong) == [False] * 4
        assert await harness.run(run.id) == run

    async def test_older_claim_of_the_same_node_is_refused(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        await harness.finish([Result(run.id, 1, "node", RunState.WAITING)])
        [again] = (await harness.runs.claim("node", ["a"], 5)).runs
        assert await harness.finish([Result(run.id, 1, "node", RunState.FAILED)]) == [False]
        assert await harness.run(run.id) == again

    async def test_run_is_finished_once(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        assert await harness.finish([Result(run.id, 1, "node", RunState.SUCCEEDED)]) == [True]
        assert await harness.finish([Result(run.id, 1, "node", RunState.FAILED)]) == [False]
        assert (await harness.run(run.id)).state is RunState.SUCCEEDED

    async def test_each_result_is_answered_in_order(self, harness: Harness) -> None:
        first, second = await harness.claimed_run("a"), await harness.claimed_run("b")
        results = [
            Result(first.id, 1, "node", RunState.SUCCEEDED),
            Result(first.id, 9, "node", RunState.FAILED),
            Result(second.id, 1, "node", RunState.FAILED, "no"),
        ]
        assert await harness.finish(results) == [True, False, True]
        assert await harness.finish([]) == []
        assert (await harness.run(first.id)).state is RunState.SUCCEEDED
        assert (await harness.run(second.id)).state is RunState.FAILED

    # -- claimed, claimants ---------------------------------------------------------------------

    async def test_node_can_ask_what_it_has_claimed(self, harness: Harness) -> None:
        mine = await harness.claimed_run("a", "first")
        await harness.claimed_run("b", "second")
        await harness.waiting_run("c")
        other = await harness.another()
        assert await other.runs.claimed("first") == [mine]
        assert await other.runs.claimed("nobody") == []
        assert sorted(await other.runs.claimants()) == ["first", "second"]
        await harness.finish([Result(mine.id, 1, "first", RunState.SUCCEEDED)])
        assert await other.runs.claimants() == ["second"]

    # -- find -----------------------------------------------------------------------------------

    async def test_runs_are_listed_newest_first_filtered_and_limited(
        self, harness: Harness
    ) -> None:
        first = await harness.claimed_run("a", overlap=Overlap.ALLOW)
        second = await harness.waiting_run("a", "2")
        third = await harness.waiting_run("b")
        assert _order(await harness.runs.find()) == [third.id, second.id, first.id]
        assert _order(await harness.runs.find(limit=1)) == [third.id]
        assert _order(await harness.runs.find(schedule="a")) == [second.id, first.id]
        assert _order(await harness.runs.find(schedule="a", state="claimed")) == [first.id]
        assert _order(await harness.runs.find(state="waiting")) == [third.id, second.id]
        assert _order(await harness.runs.find(schedule="never")) == []
        assert _order(await harness.runs.find(below=third.id)) == [second.id, first.id]
        assert _order(await harness.runs.find(below=third.id, limit=1)) == [second.id]
        assert _order(await harness.runs.find(schedule="a", below=second.id)) == [first.id]
        assert await harness.runs.find(below=first.id) == []

    async def test_runs_are_found_by_their_ids(self, harness: Harness) -> None:
        first = await harness.claimed_run("a", overlap=Overlap.ALLOW)
        second = await harness.waiting_run("b")
        both = [first.id, 12_345, second.id]
        assert _order(await harness.runs.find(both, limit=1)) == [second.id, first.id]
        assert _order(await harness.runs.find(both, state="claimed")) == [first.id]
        assert _order(await harness.runs.find(both, schedule="b")) == [second.id]
        assert await harness.runs.find([12_345]) == await harness.runs.find([]) == []

    async def test_runs_are_found_by_task_tenant_and_age(self, harness: Harness) -> None:
        old = await harness.waiting_run("a", task="one", tenant="acme")
        await harness.advance(harness.ttl)
        young = await harness.waiting_run("b", task="two", tenant="acme")
        other = await harness.waiting_run("c", task="two")
        find = harness.runs.find
        assert _order(await find(task="two")) == [other.id, young.id]
        assert _order(await find(tenant="acme")) == [young.id, old.id]
        assert _order(await find(task="two", tenant="acme", state="waiting")) == [young.id]
        assert _order(await find(older_than=harness.ttl)) == [old.id]
        assert _order(await find([old.id, other.id], task="two")) == [other.id]
        assert _order(await find(schedule="a", older_than=harness.ttl, task="one")) == [old.id]
        assert await find(schedule="a", tenant="bolt") == []
        if harness.jump is not None:  # what seems to be made in the future is found all the same
            harness.jump(-2 * harness.ttl)
            assert len(await find()) == 3

    async def test_due_time_of_a_put_back_run_counts_from_the_stores_now(
        self, harness: Harness
    ) -> None:
        run, delay = await harness.claimed_run("a"), timedelta(seconds=harness.ttl)
        before = await harness.now()
        await harness.finish([Result(run.id, 1, "node", RunState.WAITING, delay=harness.ttl)])
        after = await harness.now()
        assert before + delay <= (await harness.run(run.id)).due <= after + delay


def _ids(batch: ClaimBatch) -> list[int]:
    return _order(batch.runs)


def _order(runs: list[RunRecord]) -> list[int]:
    return [run.id for run in runs]
