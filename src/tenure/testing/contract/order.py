"""Clauses of `RunStore`: the order of a queue, the number of a claim, repeated results."""

from __future__ import annotations

import pytest

from tenure.model import OnCrash, Overlap, Result, RunRecord, RunState
from tenure.testing.contract.harness import TASK, Harness

WAITING, SUCCEEDED = RunState.WAITING, RunState.SUCCEEDED


async def queue(harness: Harness, length: int, **options: object) -> list[int]:
    """Runs of one lock key, the oldest first."""
    runs = [
        await harness.waiting_run("queue", str(i), overlap=Overlap.QUEUE, **options)
        for i in range(length)
    ]
    return [run.id for run in runs]


async def head(harness: Harness, node: str = "node") -> RunRecord:
    """The one run of the queue that can be claimed."""
    [run] = (await harness.runs.claim(node, [TASK], 9)).runs
    return run


def given_back(run: RunRecord) -> Result:
    assert run.node is not None
    return Result(run.id, run.claim, run.node, WAITING, "no room", begun=False)


def cut_off(run: RunRecord) -> Result:
    assert run.node is not None
    return Result(run.id, run.claim, run.node, WAITING, "its node was stopped")


def ended(run: RunRecord, state: RunState = SUCCEEDED) -> Result:
    assert run.node is not None
    return Result(run.id, run.claim, run.node, state)


class OrderContract:
    """The order of a queue, claims and attempts, repeated results."""

    # -- order ----------------------------------------------------------------------------------

    @pytest.mark.parametrize("end", ["given back", "cut off", "recovered"])
    async def test_run_that_waits_again_keeps_its_place(self, harness: Harness, end: str) -> None:
        fence, ids = await harness.in_office(), await queue(harness, 3)
        before = await harness.run(ids[0])
        for _ in range(2):
            await harness.advance(harness.ttl)
            run = await head(harness)
            assert run.id == ids[0]
            if end == "recovered":
                await harness.runs.recover(fence, "node", 9)
            else:
                result = given_back(run) if end == "given back" else cut_off(run)
                assert await harness.finish([result]) == [True]
            again = await harness.run(ids[0])
            assert (again.state, again.due, again.priority) == (WAITING, before.due, 0)
        for expected in ids:
            run = await head(harness)
            assert run.id == expected
            await harness.finish([ended(run)])

    async def test_run_that_waits_again_keeps_its_place_among_those_without_a_lock(
        self, harness: Harness
    ) -> None:
        first = await harness.waiting_run("a", task="x", overlap=Overlap.ALLOW)
        await harness.advance(harness.ttl)
        second = await harness.waiting_run("b", task="x", overlap=Overlap.ALLOW)
        [run] = (await harness.runs.claim("node", ["x"], 1)).runs
        assert run.id == first.id
        await harness.finish([given_back(run)])
        runs = (await harness.runs.claim("node", ["x"], 9)).runs
        assert [run.id for run in runs] == [first.id, second.id]

    async def test_retry_is_not_overtaken_by_its_queue(self, harness: Harness) -> None:
        first, second = await queue(harness, 2)
        run = await head(harness)
        retry = Result(run.id, run.claim, "node", WAITING, "no", harness.ttl, failed=True)
        assert await harness.finish([retry]) == [True]
        batch = await harness.runs.claim("node", [TASK], 9)
        assert (batch.runs, batch.next_due) == ([], (await harness.run(first)).due)
        await harness.advance(harness.ttl)
        again = await head(harness)
        assert again.id == first
        await harness.finish([ended(again, RunState.FAILED)])
        assert (await head(harness)).id == second

    async def test_retry_is_overtaken_by_a_higher_priority(self, harness: Harness) -> None:
        low = await harness.waiting_run("low", overlap=Overlap.QUEUE, lock="shared")
        run = await head(harness)
        await harness.finish([Result(run.id, run.claim, "node", WAITING, delay=harness.ttl)])
        high = await harness.waiting_run("high", overlap=Overlap.QUEUE, lock="shared", priority=1)
        run = await head(harness)
        assert run.id == high.id
        await harness.finish([ended(run)])
        await harness.advance(harness.ttl)
        assert (await head(harness)).id == low.id

    async def test_retry_holds_up_nobody_but_its_queue(self, harness: Harness) -> None:
        await queue(harness, 2)
        run = await head(harness)
        await harness.finish([Result(run.id, run.claim, "node", WAITING, delay=harness.ttl)])
        free = await harness.waiting_run("free")
        assert (await head(harness)).id == free.id

    async def test_run_whose_task_the_node_does_not_have_holds_up_nobody(
        self, harness: Harness
    ) -> None:
        """No node may have it any more; one that has it keeps to the order."""
        options = {"overlap": Overlap.QUEUE, "lock": "shared"}
        gone = await harness.waiting_run("gone", task="gone", **options)
        kept = await harness.waiting_run("kept", task="kept", **options)
        [run] = (await harness.runs.claim("old", ["gone", "kept"], 9)).runs
        assert run.id == gone.id
        await harness.finish([given_back(run)])
        [run] = (await harness.runs.claim("new", ["kept"], 9)).runs
        assert run.id == kept.id
        assert (await harness.runs.claim("old", ["gone", "kept"], 9)).runs == []

    async def test_results_that_come_with_a_claim_free_their_locks_for_it(
        self, harness: Harness
    ) -> None:
        ids = await queue(harness, 3)
        run = await head(harness)
        for expected in ids[1:]:
            batch = await harness.runs.claim("node", [TASK], 9, [ended(run)])
            assert batch.kept == [True]
            [run] = batch.runs
            assert run.id == expected

    async def test_what_is_claimed_ahead_would_be_run_again(self, harness: Harness) -> None:
        options = {"overlap": Overlap.ALLOW, "task": "x"}
        abandoned = [
            await harness.waiting_run("abandon", str(i), on_crash=OnCrash.ABANDON, **options)
            for i in range(3)
        ]
        rerun = [await harness.waiting_run("rerun", str(i), **options) for i in range(2)]
        batch = await harness.runs.claim("node", ["x"], 2, ahead=2)
        assert [run.id for run in batch.runs] == [run.id for run in abandoned[:2]]
        batch = await harness.runs.claim("node", ["x"], 1, ahead=2)
        assert [run.id for run in batch.runs] == [abandoned[2].id, *(run.id for run in rerun)]

    # -- claims and attempts --------------------------------------------------------------------

    async def test_claim_that_did_not_begin_is_no_attempt(self, harness: Harness) -> None:
        await queue(harness, 1)
        for claim in (1, 2, 3):
            run = await head(harness)
            assert (run.claim, run.attempt) == (claim, 1)
            await harness.finish([given_back(run)])
            waiting = await harness.run(run.id)
            assert (waiting.claim, waiting.attempt) == (claim, 0)
        run = await head(harness)
        await harness.finish([cut_off(run)])
        assert ((await harness.run(run.id)).claim, (await harness.run(run.id)).attempt) == (4, 1)
        run = await head(harness)
        assert (run.claim, run.attempt) == (5, 2)

    async def test_claims_of_a_run_are_numbered_upwards_whatever_ended_them(
        self, harness: Harness
    ) -> None:
        fence, _ = await harness.in_office(), await queue(harness, 1)
        claims = []
        for end in (given_back, None, cut_off, given_back, None, ended):
            run = await head(harness)
            claims.append(run.claim)
            assert (await harness.run(run.id)).claim == run.claim
            if end is None:
                await harness.runs.recover(fence, "node", 9)
            else:
                assert await harness.finish([end(run)]) == [True]
        assert claims == sorted(set(claims))

    # -- repeated results -----------------------------------------------------------------------

    @pytest.mark.parametrize("state", [SUCCEEDED, RunState.FAILED, RunState.LOST])
    async def test_result_that_is_repeated_is_on_record(
        self, harness: Harness, state: RunState
    ) -> None:
        """The answer was lost: the same result comes again, and was not refused."""
        run = await harness.claimed_run("a")
        result = Result(run.id, run.claim, "node", state, "why", failed=True)
        assert await harness.finish([result]) == [True]
        done = await harness.run(run.id)
        await harness.advance(harness.ttl / 10)
        assert await harness.finish([result]) == [True]
        assert (await harness.runs.claim("node", [], 1, [result])).kept == [True]
        assert await harness.run(run.id) == done

    @pytest.mark.parametrize("end", [given_back, cut_off])
    async def test_put_back_that_is_repeated_is_on_record_and_never_ends_a_newer_claim(
        self, harness: Harness, end: object
    ) -> None:
        run = await harness.claimed_run("a")
        assert callable(end)
        result = end(run)
        assert await harness.finish([result]) == [True]
        waiting = await harness.run(run.id)
        assert await harness.finish([result]) == [True]
        assert await harness.run(run.id) == waiting
        [again] = (await harness.runs.claim("node", ["a"], 1)).runs
        assert await harness.finish([result]) == [True]
        assert await harness.run(run.id) == again
        assert await harness.finish([ended(again)]) == [True]

    async def test_failure_that_is_repeated_counts_once(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        retry = Result(run.id, run.claim, "node", WAITING, "no", 0.0, failed=True)
        assert await harness.finish([retry]) == [True]
        assert await harness.finish([retry]) == [True]
        assert (await harness.run(run.id)).failures == 1

    async def test_what_another_result_or_a_burial_ended_is_refused(self, harness: Harness) -> None:
        fence, run = await harness.in_office(), await harness.claimed_run("a")
        assert await harness.finish([ended(run)]) == [True]
        assert await harness.finish([ended(run, RunState.FAILED)]) == [False]
        assert await harness.finish([cut_off(run)]) == [False]
        buried = await harness.claimed_run("b")
        await harness.runs.recover(fence, "node", 9)
        for result in (cut_off(buried), given_back(buried), ended(buried)):
            assert await harness.finish([result]) == [False]

    async def test_result_of_another_node_is_refused_beside_the_right_one(
        self, harness: Harness
    ) -> None:
        run, put_back = await harness.claimed_run("a"), await harness.claimed_run("b")
        results = [
            Result(run.id, run.claim, "another", SUCCEEDED),
            ended(run),
            Result(put_back.id, put_back.claim, "another", WAITING),
            cut_off(put_back),
        ]
        assert await harness.finish(results) == [False, True, False, True]
        assert await harness.finish(results) == [False, True, False, True]
