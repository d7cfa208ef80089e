"""Clauses of `Joins`: a claim inside a transaction of the caller's own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenure.model import Recovered, Report, Result, RunRecord, RunState
from tenure.testing.contract.harness import Harness
from tenure.testing.contract.joining import join


class ConfirmingContract:
    """What `run.fence` and `run.complete` rest on."""

    async def test_claim_is_confirmed_while_it_is_good(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        lent, joined = await join(harness)
        assert await joined.confirm(run.id, run.claim, "node")
        assert not await joined.confirm(run.id, run.claim, "another")
        assert not await joined.confirm(run.id, run.claim + 1, "node")
        assert not await joined.confirm(run.id + 1_000, run.claim, "node")
        lent.commit()
        assert await harness.finish([_succeeded(run)]) == [True]
        lent, joined = await join(harness)
        assert not await joined.confirm(run.id, run.claim, "node")
        lent.rollback()

    async def test_claim_that_was_taken_away_is_neither_confirmed_nor_reported(
        self, harness: Harness
    ) -> None:
        fence = await harness.in_office()
        run = await harness.claimed_run("a", "dead")
        await harness.runs.recover(fence, "dead", 3)
        lent, joined = await join(harness)
        assert not await joined.confirm(run.id, run.claim, "dead")
        batch = await joined.runs.claim("dead", (), 0, [_succeeded(run, "dead")])
        assert batch.kept == [False]
        lent.commit()
        assert (await harness.run(run.id)).state is RunState.WAITING

    async def test_result_is_on_record_when_the_caller_commits(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        lent, joined = await join(harness)
        assert (await joined.runs.claim("node", (), 0, [_succeeded(run)])).kept == [True]
        assert (await harness.run(run.id)).state is RunState.CLAIMED
        lent.commit()
        assert (await harness.run(run.id)).state is RunState.SUCCEEDED
        # Its node reports it once more, as it does with every run that has ended.
        assert await harness.finish([_succeeded(run)]) == [True]

    async def test_result_ends_when_it_is_given_not_when_the_transaction_began(
        self, harness: Harness
    ) -> None:
        run = await harness.claimed_run("a")
        lent, joined = await join(harness)
        assert await joined.confirm(run.id, run.claim, "node")
        await harness.advance(harness.ttl / 10)
        before = await harness.now()
        result = replace(_succeeded(run), report=Report(1.0))
        assert (await joined.runs.claim("node", (), 0, [result])).kept == [True]
        lent.commit()
        finished = (await harness.run(run.id)).finished_at
        assert finished is not None
        assert before <= finished <= await harness.now()
        [attempt] = await harness.runs.attempts(run.id)
        assert attempt.ended_at == finished

    async def test_result_that_is_rolled_back_never_was(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        lent, joined = await join(harness)
        assert (await joined.runs.claim("node", (), 0, [_succeeded(run)])).kept == [True]
        lent.rollback()
        assert (await harness.run(run.id)).state is RunState.CLAIMED
        failed = Result(run.id, run.claim, "node", RunState.FAILED, "why")
        assert await harness.finish([failed]) == [True]

    async def test_results_of_others_wait_for_no_transaction(self, harness: Harness) -> None:
        """A node reports many at once: one that somebody has locked is reported again later."""
        if not harness.many_writers:
            pytest.skip("this store has one writer at a time")
        locked, free = [await harness.claimed_run(name) for name in ("a", "b")]
        lent, joined = await join(harness)
        assert await joined.confirm(locked.id, locked.claim, "node")
        results = [_succeeded(locked), _succeeded(free)]
        batch = await harness.runs.claim("node", (), 0, results)
        assert (batch.kept, batch.held) == ([False, True], frozenset({locked.id}))
        assert (await harness.run(free.id)).state is RunState.SUCCEEDED
        assert (await harness.run(locked.id)).state is RunState.CLAIMED
        lent.rollback()
        batch = await harness.runs.claim("node", (), 0, results)
        assert (batch.kept, batch.held) == ([True, True], frozenset())

    async def test_recovery_waits_for_no_transaction(self, harness: Harness) -> None:
        """It may be that of a node which was cut off: nobody knows when it ends."""
        if not harness.many_writers:
            pytest.skip("this store has one writer at a time")
        fence = await harness.in_office()
        kept = await harness.claimed_run("a", "dead")
        await harness.claimed_run("b", "dead")
        lent, joined = await join(harness)
        assert await joined.confirm(kept.id, kept.claim, "dead")
        assert await harness.runs.recover(fence, "dead", 3) == Recovered(rerun=1)
        assert await harness.runs.recover(fence, "dead", 3) == Recovered()
        assert (await joined.runs.claim("dead", (), 0, [_succeeded(kept, "dead")])).kept == [True]
        lent.commit()
        assert await harness.runs.recover(fence, "dead", 3) == Recovered()
        assert (await harness.run(kept.id)).state is RunState.SUCCEEDED


def _succeeded(run: RunRecord, node: str = "node") -> Result:
    return Result(run.id, run.claim, node, RunState.SUCCEEDED)
