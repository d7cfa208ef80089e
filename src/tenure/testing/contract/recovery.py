"""Clauses of `RunStore`: what becomes of a dead node's runs, and of what is old."""

from __future__ import annotations

import pytest

from tenure.errors import Fenced
from tenure.model import ClaimBatch, Fence, OnCrash, Overlap, Pruned, Recovered, Result, RunState
from tenure.testing.contract.harness import SCOPE, TASK, Harness, together


class RecoveryContract:
    """Recover, prune."""

    async def test_recovered_run_waits_again_due_at_once(self, harness: Harness) -> None:
        fence, run = await harness.in_office(), await harness.claimed_run("a", "dead")
        bystander = await harness.claimed_run("b", "alive")
        assert await harness.runs.recover(fence, "dead", 3) == Recovered(rerun=1)
        waiting = await harness.run(run.id)
        assert (waiting.state, waiting.node, waiting.crashes) == (RunState.WAITING, None, 1)
        assert await harness.run(bystander.id) == bystander
        [again] = (await harness.runs.claim("second", ["a"], 5)).runs
        assert (again.id, again.attempt, again.crashes) == (run.id, 2, 1)

    async def test_run_that_must_not_run_again_is_lost(self, harness: Harness) -> None:
        fence = await harness.in_office()
        run = await harness.claimed_run("a", "dead", on_crash=OnCrash.ABANDON)
        assert await harness.runs.recover(fence, "dead", 3) == Recovered(lost=1)
        lost = await harness.run(run.id)
        assert (lost.state, lost.crashes) == (RunState.LOST, 1)
        assert lost.finished_at is not None
        assert lost.error
        assert (await harness.runs.claim("second", ["a"], 5)).runs == []

    async def test_run_is_lost_at_the_last_crash_it_may_survive(self, harness: Harness) -> None:
        fence, run = await harness.in_office(), await harness.claimed_run("a", "node 1")
        assert await harness.runs.recover(fence, "node 1", 2) == Recovered(rerun=1)
        assert _ids(await harness.runs.claim("node 2", ["a"], 5)) == [run.id]
        assert await harness.runs.recover(fence, "node 2", 2) == Recovered(lost=1)
        assert (await harness.run(run.id)).state is RunState.LOST

    async def test_recovery_frees_the_lock(self, harness: Harness) -> None:
        fence = await harness.in_office()
        run = await harness.claimed_run(
            "a", "dead", lock="shared", overlap=Overlap.QUEUE, on_crash=OnCrash.ABANDON
        )
        queued = await harness.waiting_run("b", lock="shared", overlap=Overlap.QUEUE)
        await harness.runs.recover(fence, "dead", 3)
        assert (await harness.run(run.id)).state is RunState.LOST
        assert _ids(await harness.runs.claim("second", [TASK], 5)) == [queued.id]

    async def test_no_more_are_recovered_at_once_than_asked_for(self, harness: Harness) -> None:
        fence = await harness.in_office()
        policies = [OnCrash.RERUN, OnCrash.ABANDON, OnCrash.RERUN, OnCrash.ABANDON, OnCrash.RERUN]
        claimed = [
            await harness.claimed_run(f"s{number}", "dead", on_crash=on_crash)
            for number, on_crash in enumerate(policies)
        ]
        assert await harness.runs.recover(fence, "dead", 3, 2) == Recovered(rerun=1, lost=1)
        left = [run.id for run in await harness.runs.claimed("dead")]
        assert left == sorted(run.id for run in claimed)[2:]  # the oldest first
        assert await harness.runs.recover(fence, "dead", 3, 2) == Recovered(rerun=1, lost=1)
        assert await harness.runs.recover(fence, "dead", 3, 2) == Recovered(rerun=1)
        assert await harness.runs.recover(fence, "dead", 3, 2) == Recovered()

    async def test_recovery_of_a_node_without_claims_does_nothing(self, harness: Harness) -> None:
        fence, run = await harness.in_office(), await harness.claimed_run("a")
        assert await harness.runs.recover(fence, "nobody", 3) == Recovered()
        assert await harness.run(run.id) == run

    async def test_recover_with_stale_fence_changes_nothing(self, harness: Harness) -> None:
        old, run = await harness.in_office(1, "ann"), await harness.claimed_run("a")
        await harness.in_office(2, "bob")
        for fence in (old, Fence(SCOPE, 2, "ann")):
            with pytest.raises(Fenced):
                await harness.runs.recover(fence, "node", 3)
        assert await harness.run(run.id) == run

    # -- prune ----------------------------------------------------------------------------------

    async def test_prune_deletes_what_finished_long_ago(self, harness: Harness) -> None:
        fence = await harness.in_office()
        old = await harness.claimed_run("old")
        await harness.finish([Result(old.id, 1, "node", RunState.SUCCEEDED)])
        open_ = await harness.claimed_run("open")
        waiting = await harness.waiting_run("waiting")
        await harness.advance(harness.ttl * 2)
        fresh = await harness.claimed_run("fresh")
        await harness.finish([Result(fresh.id, 1, "node", RunState.FAILED)])
        assert (await harness.runs.prune(fence, harness.ttl, 100)).count == 2
        left = {run.id for run in await harness.runs.find()}
        assert left == {open_.id, waiting.id, fresh.id}
        assert await harness.schedules.occurrences("old") == []
        assert len(await harness.schedules.occurrences("open")) == 1
        assert len(await harness.schedules.occurrences("fresh")) == 1
        assert "old" in await harness.schedules.find(["old"])

    async def test_prune_takes_at_most_the_limit_of_each(self, harness: Harness) -> None:
        fence = await harness.in_office()
        for i in range(5):
            run = await harness.claimed_run(f"s{i}")
            await harness.finish([Result(run.id, 1, "node", RunState.SUCCEEDED)])
        await harness.advance(harness.ttl * 2)
        assert 2 <= (await harness.runs.prune(fence, harness.ttl, 2)).count <= 4
        assert len(await harness.runs.find()) == 3
        total = [await harness.runs.prune(fence, harness.ttl, 2) for _ in range(9)]
        assert total[-1] == Pruned(0)
        assert await harness.runs.find() == []

    async def test_prune_with_stale_fence_changes_nothing(self, harness: Harness) -> None:
        old, run = await harness.in_office(1, "ann"), await harness.claimed_run("a")
        await harness.finish([Result(run.id, 1, "node", RunState.SUCCEEDED)])
        await harness.advance(harness.ttl * 2)
        await harness.in_office(2, "bob")
        with pytest.raises(Fenced):
            await harness.runs.prune(old, harness.ttl, 100)
        assert len(await harness.runs.find()) == 1

    async def test_prune_needs_no_fence(self, harness: Harness) -> None:
        """An operator may do it beside a leader: what has finished does not change again."""
        await harness.in_office(3, "ann")
        done, open_ = await harness.claimed_run("done"), await harness.claimed_run("open")
        await harness.finish([Result(done.id, 1, "node", RunState.SUCCEEDED)])
        skipped = await harness.schedules.run_now("open", "2")
        assert skipped == (None, True)
        await harness.advance(harness.ttl * 2)
        other = await harness.another()
        assert (await other.runs.prune(None, harness.ttl * 3, 100)).count == 0
        assert (await other.runs.prune(None, harness.ttl, 100, dry_run=True)).count == 3
        assert (await harness.run(done.id)).state is RunState.SUCCEEDED
        answers = await together(*(s.runs.prune(None, harness.ttl, 100) for s in (harness, other)))
        assert sum(answer.count for answer in answers) == 3
        assert await harness.runs.find([done.id]) == []
        assert [run.id for run in await harness.runs.find()] == [open_.id]
        assert len(await harness.schedules.occurrences("open")) == 1


def _ids(batch: ClaimBatch) -> list[int]:
    return [run.id for run in batch.runs]
