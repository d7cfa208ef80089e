"""Clauses of `RunStore`: cancelling and retrying runs, and what they return."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tenure.backends.base import CANCELS, RUNS
from tenure.model import (
    PENDING,
    Cancelling,
    OnCrash,
    Overlap,
    Recovered,
    Result,
    RunRecord,
    RunState,
)
from tenure.testing.contract.harness import TASK, Harness, together


class CancelContract:
    """Waiting runs end at once; claimed ones by their claim."""

    async def test_waiting_run_is_cancelled_at_once(self, harness: Harness) -> None:
        run = await harness.waiting_run("a")
        assert await harness.runs.cancel([run.id]) == {run.id: Cancelling.CANCELLED}
        ended = await harness.run(run.id)
        assert (ended.state, ended.node, ended.attempt) == (RunState.CANCELLED, None, 0)
        assert ended.finished_at is not None
        assert ended.error
        assert (await harness.runs.claim("node", [TASK], 9)).runs == []

    async def test_next_run_of_a_cancelled_ones_lock_is_claimed(self, harness: Harness) -> None:
        first, second, third = [
            await harness.waiting_run(name, lock="shared", overlap=Overlap.QUEUE) for name in "abc"
        ]
        await harness.runs.cancel([first.id])
        assert _ids((await harness.runs.claim("node", [TASK], 9)).runs) == [second.id]
        await harness.finish([Result(second.id, 1, "node", RunState.SUCCEEDED)])
        assert _ids((await harness.runs.claim("node", [TASK], 9)).runs) == [third.id]

    async def test_cancelled_retry_holds_up_nobody(self, harness: Harness) -> None:
        run = await harness.claimed_run("a", lock="shared", overlap=Overlap.QUEUE)
        queued = await harness.waiting_run("b", lock="shared", overlap=Overlap.QUEUE, task="a")
        later = Result(run.id, 1, "node", RunState.WAITING, delay=1_000 * harness.ttl)
        await harness.finish([later])
        assert (await harness.runs.claim("node", ["a"], 9)).runs == []
        assert await harness.runs.cancel([run.id]) == {run.id: Cancelling.CANCELLED}
        assert _ids((await harness.runs.claim("node", ["a"], 9)).runs) == [queued.id]

    async def test_whole_queue_is_cancelled(self, harness: Harness) -> None:
        names = [f"s{number}" for number in range(6)]
        runs = [
            await harness.waiting_run(name, lock=lock, overlap=Overlap.QUEUE)
            for name, lock in zip(names, ("x", "y") * 3, strict=True)
        ]
        kept = runs[4]
        chosen = [run.id for run in runs if run is not kept]
        assert set((await harness.runs.cancel(chosen)).values()) == {Cancelling.CANCELLED}
        assert _ids((await harness.runs.claim("node", [TASK], 9)).runs) == [kept.id]

    async def test_claimed_run_is_asked_for(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        assert await harness.runs.cancelling("node") == []
        assert await harness.runs.cancel([run.id]) == {run.id: Cancelling.REQUESTED}
        asked = await harness.run(run.id)
        assert asked.cancel_requested_at is not None
        assert replace(asked, cancel_requested_at=None) == run
        assert await harness.runs.cancelling("node") == [(run.id, 1)]
        assert await harness.runs.cancelling("another") == []
        assert await harness.runs.claimed("node") == [asked]
        await harness.advance(harness.ttl / 10)
        assert await harness.runs.cancel([run.id]) == {run.id: Cancelling.REQUESTED}
        assert await harness.run(run.id) == asked

    @pytest.mark.parametrize(
        "result",
        [
            Result(0, 1, "node", RunState.WAITING, "put back"),
            Result(0, 1, "node", RunState.WAITING, "failed", delay=0.0, failed=True),
            Result(0, 1, "node", RunState.WAITING, "given back", begun=False),
            Result(0, 1, "node", RunState.LOST, "cut off"),
        ],
        ids=["put back", "retry", "given back", "lost"],
    )
    async def test_run_that_was_asked_to_end_does_not_wait_again(
        self, harness: Harness, result: Result
    ) -> None:
        run = await harness.claimed_run("a", lock="shared", overlap=Overlap.QUEUE)
        queued = await harness.waiting_run("b", lock="shared", overlap=Overlap.QUEUE, task="a")
        await harness.runs.cancel([run.id])
        result = replace(result, run_id=run.id)
        batch = await harness.runs.claim("node", ["a"], 9, [result])
        assert batch.kept == [True]
        assert batch.cancelled == {run.id}
        assert _ids(batch.runs) == [queued.id]
        ended = await harness.run(run.id)
        assert (ended.state, ended.error) == (RunState.CANCELLED, result.error)
        assert ended.finished_at is not None
        assert await harness.runs.cancelling("node") == []
        again = await harness.runs.claim("node", ["a"], 0, [result])
        assert again.kept == [True], "the reply may have been lost"
        assert await harness.run(run.id) == ended

    @pytest.mark.parametrize("state", [RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED])
    async def test_end_that_comes_first_stands(self, harness: Harness, state: RunState) -> None:
        run = await harness.claimed_run("a")
        await harness.runs.cancel([run.id])
        batch = await harness.runs.claim("node", ["a"], 9, [Result(run.id, 1, "node", state)])
        assert (batch.kept, batch.cancelled, batch.runs) == ([True], frozenset(), [])
        assert (await harness.run(run.id)).state is state

    async def test_only_what_the_results_say_otherwise_is_named(self, harness: Harness) -> None:
        """A run that was not asked to end is put back as ever, beside one that was."""
        asked, other = await harness.claimed_run("a"), await harness.claimed_run("b")
        await harness.runs.cancel([asked.id])
        results = [Result(run.id, 1, "node", RunState.WAITING) for run in (other, asked)]
        batch = await harness.runs.claim("node", ["a", "b"], 0, results)
        assert (batch.kept, batch.cancelled) == ([True, True], frozenset({asked.id}))
        assert (await harness.run(other.id)).state is RunState.WAITING

    @pytest.mark.parametrize(
        "state", [RunState.SUCCEEDED, RunState.FAILED, RunState.LOST, RunState.CANCELLED]
    )
    async def test_cancel_that_comes_too_late_changes_nothing(
        self, harness: Harness, state: RunState
    ) -> None:
        run = await harness.claimed_run("a")
        await harness.finish([Result(run.id, 1, "node", state, "so it is")])
        ended = await harness.run(run.id)
        assert await harness.runs.cancel([run.id]) == {run.id: Cancelling.ENDED}
        assert await harness.run(run.id) == ended

    async def test_each_run_gets_its_answer(self, harness: Harness) -> None:
        claimed, waiting = await harness.claimed_run("a"), await harness.waiting_run("b")
        ids = [waiting.id, 12_345, claimed.id, waiting.id]
        expected = {waiting.id: Cancelling.CANCELLED, claimed.id: Cancelling.REQUESTED}
        assert await harness.runs.cancel(ids) == expected
        assert await harness.runs.cancel([]) == {}

    @pytest.mark.parametrize("on_crash", OnCrash)
    async def test_cancelled_run_of_a_dead_node_ends(
        self, harness: Harness, on_crash: OnCrash
    ) -> None:
        fence = await harness.in_office()
        run = await harness.claimed_run(
            "a", "dead", lock="shared", overlap=Overlap.QUEUE, on_crash=on_crash
        )
        queued = await harness.waiting_run("b", lock="shared", overlap=Overlap.QUEUE, task="a")
        await harness.runs.cancel([run.id])
        assert await harness.runs.recover(fence, "dead", 3) == Recovered(cancelled=1)
        ended = await harness.run(run.id)
        assert (ended.state, ended.crashes) == (RunState.CANCELLED, 1)
        assert ended.finished_at is not None
        assert ended.error
        late = Result(run.id, 1, "dead", RunState.SUCCEEDED)
        assert (await harness.runs.claim("dead", [], 0, [late])).kept == [False]
        assert _ids((await harness.runs.claim("second", ["a"], 5)).runs) == [queued.id]

    async def test_request_wakes_and_so_does_what_it_frees(self, harness: Harness) -> None:
        asked, freed = asyncio.Event(), asyncio.Event()
        run = await harness.claimed_run("a")
        waiting = await harness.waiting_run("b", lock="shared", overlap=Overlap.QUEUE)
        await harness.waiting_run("c", lock="shared", overlap=Overlap.QUEUE)
        other = await harness.another()
        stops = [
            harness.backend.wakeups.subscribe(CANCELS, asked.set),
            harness.backend.wakeups.subscribe(RUNS, freed.set),
        ]
        # Whoever subscribes may be called once, for what it may have missed.
        await harness.heard(asked, 0.3)
        asked.clear()
        freed.clear()
        await other.runs.cancel([run.id])
        assert await harness.heard(asked)
        await other.runs.cancel([waiting.id])
        assert await harness.heard(freed)
        for stop in stops:
            stop()

    async def test_cancel_and_claim_at_the_same_moment(self, harness: Harness) -> None:
        """Whichever comes first: a run that was cancelled is never claimed, and one that is claimed
        knows of the request."""
        stores = await harness.backends(3)
        for number in range(12):
            run = await harness.waiting_run(f"s{number}", task="race")
            answers = await together(
                stores[0].runs.claim("node", ["race"], 1),
                stores[1].runs.cancel([run.id]),
                stores[2].runs.cancel([run.id]),
            )
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
            record = await harness.run(run.id)
            said = {answer[run.id] for answer in answers[1:]}
            if record.state is RunState.CANCELLED:
                assert said <= {Cancelling.CANCELLED, Cancelling.ENDED}
                assert (await harness.runs.claim("node", ["race"], 1)).runs == []
            else:
                assert said == {Cancelling.REQUESTED}
                assert await harness.runs.cancelling("node") == [(run.id, 1)]
                await harness.finish([Result(run.id, 1, "node", RunState.CANCELLED)])


class RetryContract:
    """What has ended waits again, as the same run."""

    @pytest.mark.parametrize("state", [RunState.FAILED, RunState.LOST, RunState.CANCELLED])
    async def test_ended_run_waits_again(self, harness: Harness, state: RunState) -> None:
        run = await harness.claimed_run("a")
        await harness.finish([Result(run.id, 1, "node", state, "so it is", failed=True)])
        await harness.advance(harness.ttl / 10)
        assert await harness.runs.retry([run.id]) == {run.id: True}
        waiting = await harness.run(run.id)
        assert (waiting.state, waiting.node, waiting.finished_at) == (RunState.WAITING, None, None)
        assert (waiting.attempt, waiting.claim, waiting.failures) == (1, 1, 0)
        assert waiting.error == (None if state is RunState.CANCELLED else "so it is")
        assert run.due < waiting.due <= await harness.now()
        batch = await harness.runs.claim("second", ["a"], 9)
        assert [(r.id, r.attempt, r.claim) for r in batch.runs] == [(run.id, 2, 2)]

    async def test_result_of_an_earlier_claim_is_refused(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        await harness.finish([Result(run.id, 1, "node", RunState.FAILED)])
        await harness.runs.retry([run.id])
        late = Result(run.id, 1, "node", RunState.SUCCEEDED)
        assert await harness.finish([late]) == [False]
        assert _ids((await harness.runs.claim("node", ["a"], 9)).runs) == [run.id]
        assert await harness.finish([late]) == [False], "the same node has it again"
        assert await harness.finish([replace(late, claim=2)]) == [True]

    async def test_crashes_start_over(self, harness: Harness) -> None:
        fence, run = await harness.in_office(), await harness.claimed_run("a", "dead")
        assert await harness.runs.recover(fence, "dead", 1) == Recovered(lost=1)
        assert await harness.runs.retry([run.id]) == {run.id: True}
        assert (await harness.run(run.id)).crashes == 0

    async def test_succeeded_run_is_retried_only_if_somebody_insists(
        self, harness: Harness
    ) -> None:
        run = await harness.claimed_run("a")
        not_kept = Result(run.id, 1, "node", RunState.SUCCEEDED, "too large", value="")
        await harness.finish([not_kept])
        ended = await harness.run(run.id)
        assert await harness.runs.retry([run.id]) == {run.id: False}
        assert await harness.run(run.id) == ended
        assert await harness.runs.retry([run.id], even_succeeded=True) == {run.id: True}
        assert (await harness.run(run.id)).error is None, "it spoke of the result"
        assert _ids((await harness.runs.claim("node", ["a"], 9)).runs) == [run.id]

    async def test_unfinished_run_stays_as_it_is(self, harness: Harness) -> None:
        claimed, waiting = await harness.claimed_run("a"), await harness.waiting_run("b")
        ids = [claimed.id, waiting.id, 12_345]
        answer = await harness.runs.retry(ids, even_succeeded=True)
        assert answer == {claimed.id: False, waiting.id: False}
        assert [await harness.run(claimed.id), await harness.run(waiting.id)] == [claimed, waiting]
        assert await harness.runs.retry([]) == {}

    async def test_retried_run_queues_behind_the_claim_of_its_lock(self, harness: Harness) -> None:
        queue = {"lock": "shared", "overlap": Overlap.QUEUE}
        run = await harness.claimed_run("a", **queue)
        queued = [await harness.waiting_run(name, task="a", **queue) for name in "bc"]
        await harness.finish([Result(run.id, 1, "node", RunState.FAILED)])
        assert _ids((await harness.runs.claim("node", ["a"], 9)).runs) == [queued[0].id]
        assert await harness.runs.retry([run.id]) == {run.id: True}
        assert (await harness.runs.claim("second", ["a"], 9)).runs == []
        # One that has begun goes before those of its priority that have not.
        ended = [Result(queued[0].id, 1, "node", RunState.SUCCEEDED)]
        assert _ids((await harness.runs.claim("node", ["a"], 9, ended)).runs) == [run.id]
        ended = [Result(run.id, 2, "node", RunState.SUCCEEDED)]
        assert _ids((await harness.runs.claim("node", ["a"], 9, ended)).runs) == [queued[1].id]

    async def test_run_that_was_cancelled_while_it_waited_is_retried(
        self, harness: Harness
    ) -> None:
        runs = [
            await harness.waiting_run(name, lock="shared", overlap=Overlap.QUEUE) for name in "abc"
        ]
        await harness.runs.cancel(_ids(runs))
        assert set((await harness.runs.retry(_ids(runs))).values()) == {True}
        assert {(await harness.run(run.id)).error for run in runs} == {None}
        for run in runs:
            assert _ids((await harness.runs.claim("node", [TASK], 9)).runs) == [run.id]
            await harness.finish([Result(run.id, 1, "node", RunState.SUCCEEDED)])

    async def test_request_to_cancel_ends_with_the_run(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        await harness.runs.cancel([run.id])
        await harness.finish([Result(run.id, 1, "node", RunState.CANCELLED)])
        await harness.runs.retry([run.id])
        assert (await harness.run(run.id)).cancel_requested_at is None
        assert _ids((await harness.runs.claim("node", ["a"], 9)).runs) == [run.id]
        assert await harness.runs.cancelling("node") == []
        await harness.finish([Result(run.id, 2, "node", RunState.WAITING)])
        assert (await harness.run(run.id)).state is RunState.WAITING

    async def test_run_of_a_removed_schedule_is_retried(self, harness: Harness) -> None:
        run = await harness.waiting_run("a")
        assert await harness.schedules.remove("a")
        assert (await harness.run(run.id)).state is RunState.CANCELLED
        assert await harness.runs.retry([run.id]) == {run.id: True}
        assert _ids((await harness.runs.claim("node", [TASK], 9)).runs) == [run.id]

    async def test_retry_wakes(self, harness: Harness) -> None:
        woken = asyncio.Event()
        run = await harness.waiting_run("a")
        await harness.runs.cancel([run.id])
        stop = harness.backend.wakeups.subscribe(RUNS, woken.set)
        await harness.heard(woken, 0.3)
        woken.clear()
        await (await harness.another()).runs.retry([run.id])
        assert await harness.heard(woken)
        stop()

    async def test_retries_at_the_same_moment_make_one_claim(self, harness: Harness) -> None:
        stores = await harness.backends(3)
        run = await harness.claimed_run("race", lock="shared", overlap=Overlap.QUEUE)
        for claim in range(1, 9):
            await harness.finish([Result(run.id, claim, "node", RunState.FAILED)])
            answers = await together(
                stores[0].runs.retry([run.id]),
                stores[1].runs.retry([run.id]),
                stores[2].runs.claim("node", ["race"], 1),
            )
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
            assert sorted([answers[0][run.id], answers[1][run.id]]) == [False, True]
            again = (await harness.runs.claim("node", ["race"], 1)).runs
            assert [r.claim for r in [*answers[2].runs, *again]] == [claim + 1]


class ResultContract:
    """What a task returned stays with its run."""

    @pytest.mark.parametrize("value", [None, "", '{"a": [1, "ä\u2028\U0001f600"]}', "x" * 100_000])
    async def test_value_is_kept_as_it_is(self, harness: Harness, value: str | None) -> None:
        run, other = await harness.claimed_run("a"), await harness.claimed_run("b")
        results = [
            Result(other.id, 1, "node", RunState.FAILED, "it failed"),
            Result(run.id, 1, "node", RunState.SUCCEEDED, value=value),
        ]
        assert await harness.finish(results) == [True, True]
        assert (await harness.run(run.id)).result == value
        assert (await harness.run(other.id)).result is None

    async def test_value_of_a_refused_result_is_not(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        done = Result(run.id, 1, "node", RunState.SUCCEEDED, value="1")
        assert await harness.finish([replace(done, claim=2), done]) == [False, True]
        assert await harness.finish([replace(done, value="2", node="other")]) == [False]
        assert (await harness.run(run.id)).result == "1"

    @pytest.mark.parametrize("value", [None, "", "1"])
    async def test_value_may_come_after_the_success(
        self, harness: Harness, value: str | None
    ) -> None:
        """`run.complete` records it in the task's transaction, before the task returns."""
        run, other = await harness.claimed_run("a"), await harness.claimed_run("b")
        done = Result(run.id, 1, "node", RunState.SUCCEEDED, value=PENDING)
        assert await harness.finish([done]) == [True]
        assert (await harness.run(run.id)).result == PENDING
        unrelated = Result(other.id, 1, "node", RunState.SUCCEEDED)
        late = [unrelated, replace(done, value=value, error="why")]
        assert await harness.finish(late) == [True, True]
        after = await harness.run(run.id)
        assert (after.result, after.error) == (value, "why")
        assert await harness.finish([replace(done, value="2")]) == [True]
        assert (await harness.run(run.id)).result == value

    async def test_value_of_a_success_is_not_replaced(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        done = Result(run.id, 1, "node", RunState.SUCCEEDED)
        for value in (None, "1", PENDING):
            assert await harness.finish([replace(done, value=value)]) == [True]
            assert (await harness.run(run.id)).result is None

    async def test_retry_forgets_it(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        await harness.finish([Result(run.id, 1, "node", RunState.SUCCEEDED, value="1")])
        await harness.runs.retry([run.id], even_succeeded=True)
        assert (await harness.run(run.id)).result is None


def _ids(runs: list[RunRecord]) -> list[int]:
    return [run.id for run in runs]
