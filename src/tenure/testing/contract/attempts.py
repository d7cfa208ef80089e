"""Clauses of `RunStore`: what is on record about attempts, and what those that run report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tenure.model import (
    FIRST_ATTEMPTS,
    LAST_ATTEMPTS,
    Attempt,
    AttemptOutcome,
    OnCrash,
    Report,
    Result,
    RunRecord,
    RunState,
)
from tenure.testing.contract.harness import Harness
from tenure.testing.contract.joining import join

HALF = Report(0.5, "page 15 of 30", "one\ntwo\n", 3)


class AttemptContract:
    """Report, attempts, reported; and what results and recoveries leave behind."""

    # -- ended ----------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("how", "outcome"),
        [
            ({"state": RunState.FAILED, "failed": True}, AttemptOutcome.FAILED),
            ({"state": RunState.WAITING, "failed": True, "delay": 5.0}, AttemptOutcome.FAILED),
            ({"state": RunState.WAITING}, AttemptOutcome.PUT_BACK),
            ({"state": RunState.LOST}, AttemptOutcome.LOST),
            ({"state": RunState.CANCELLED}, AttemptOutcome.CANCELLED),
        ],
    )
    async def test_attempt_that_did_not_succeed_is_on_record(
        self, harness: Harness, how: dict[str, Any], outcome: AttemptOutcome
    ) -> None:
        run = await harness.claimed_run("a")
        await harness.advance(harness.ttl / 10)
        before = await harness.now()
        assert await harness.finish([_result(run, error="why", **how)]) == [True]
        [attempt] = await (await harness.another()).runs.attempts(run.id)
        assert attempt.ended_at is not None
        assert before <= attempt.ended_at <= await harness.now()
        assert replace(attempt, ended_at=None) == Attempt(
            run.id, run.claim, 1, "node", _claimed_at(run), outcome=outcome, error="why"
        )

    async def test_success_that_tells_nothing_is_not(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        assert await harness.finish([_result(run, value="1", error="not kept")]) == [True]
        assert await harness.runs.attempts(run.id) == []
        assert await harness.runs.attempts(run.id + 1_000) == []

    @pytest.mark.parametrize("state", [RunState.WAITING, RunState.CANCELLED])
    async def test_what_did_not_begin_was_no_attempt(
        self, harness: Harness, state: RunState
    ) -> None:
        run = await harness.claimed_run("a")
        assert await harness.finish([_result(run, state=state, begun=False)]) == [True]
        assert await harness.runs.attempts(run.id) == []

    async def test_attempts_are_in_order_and_count_as_people_do(self, harness: Harness) -> None:
        run = await harness.claimed_run("a", "first")
        given_back = _result(run, state=RunState.WAITING, begun=False)
        assert await harness.finish([given_back]) == [True]
        run = await _again(harness, run, "second")
        failed = _result(run, state=RunState.WAITING, failed=True, delay=0.0)
        assert await harness.finish([failed]) == [True]
        run = await _again(harness, run, "third")
        assert await harness.finish([_result(run)]) == [True]
        [attempt] = await harness.runs.attempts(run.id)
        assert (attempt.claim, attempt.attempt, attempt.node) == (2, 1, "second")

    async def test_two_results_in_one_call_have_their_own(self, harness: Harness) -> None:
        first, second, third = [await harness.claimed_run(name) for name in "abc"]
        results = [_failed(second, error="two"), _result(third), _failed(first, error="one")]
        assert await harness.finish(results) == [True] * 3
        for run, errors in ((first, ["one"]), (second, ["two"]), (third, [])):
            assert [a.error for a in await harness.runs.attempts(run.id)] == errors

    async def test_numbers_of_results_in_one_call_may_be_whole_or_not(
        self, harness: Harness
    ) -> None:
        runs = [await harness.claimed_run(name) for name in "abc"]
        results = [
            _result(run, state=RunState.WAITING, delay=number, report=Report(number))
            for run, number in zip(runs, (1, 0.5, None), strict=True)
        ]
        assert await harness.finish(results) == [True] * 3
        found = [(await harness.runs.attempts(run.id))[0].progress for run in runs]
        assert found == [1, 0.5, None]

    async def test_run_that_ends_as_cancelled_instead_has_a_cancelled_attempt(
        self, harness: Harness
    ) -> None:
        run = await harness.claimed_run("a")
        await harness.runs.cancel([run.id])
        assert await harness.finish([_result(run, state=RunState.WAITING, error="stopped")])
        [attempt] = await harness.runs.attempts(run.id)
        assert (attempt.outcome, attempt.error) == (AttemptOutcome.CANCELLED, "stopped")

    async def test_result_that_does_not_count_leaves_no_trace(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        for wrong in (replace(run, node="other"), replace(run, claim=run.claim + 1)):
            assert await harness.finish([_failed(wrong, report=HALF)]) == [False]
        assert await harness.runs.attempts(run.id) == []

    @pytest.mark.parametrize("state", [RunState.WAITING, RunState.FAILED, RunState.CANCELLED])
    async def test_repeated_result_changes_nothing(self, harness: Harness, state: RunState) -> None:
        run = await harness.claimed_run("a")
        result = _result(run, state=state, error="why", report=HALF)
        assert await harness.finish([result]) == [True]
        [attempt] = await harness.runs.attempts(run.id)
        await harness.advance(harness.ttl / 10)
        again = replace(result, error="else", report=replace(HALF, log="else"))
        assert await harness.finish([again]) == [True]
        assert await harness.runs.attempts(run.id) == [attempt]

    async def test_success_that_is_repeated_changes_nothing(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        for _ in range(3):
            assert await harness.finish([_result(run, report=HALF)]) == [True]
            [attempt] = await harness.runs.attempts(run.id)
            assert attempt.reported_at == (await harness.run(run.id)).finished_at
            await harness.advance(harness.ttl / 10)

    async def test_crashed_attempts_are_on_record(self, harness: Harness) -> None:
        fence = await harness.in_office()
        again, lost, asked, told = [
            await harness.claimed_run(name, "dead", on_crash=on_crash)
            for name, on_crash in zip(
                "abcd", [OnCrash.RERUN, OnCrash.ABANDON, OnCrash.RERUN, OnCrash.RERUN], strict=True
            )
        ]
        bystander = await harness.claimed_run("e", "alive")
        await harness.runs.cancel([asked.id])
        await harness.runs.report("dead", {(told.id, told.claim): HALF})
        await harness.runs.recover(fence, "dead", 3)
        for run in (again, lost, asked, told):
            [attempt] = await harness.runs.attempts(run.id)
            assert attempt.outcome is AttemptOutcome.CRASHED
            assert (attempt.claim, attempt.node) == (run.claim, "dead")
            assert attempt.started_at == run.claimed_at
            assert attempt.ended_at is not None
            assert "dead" in (attempt.error or "")
            assert _told(attempt) == (HALF if run is told else Report())
        assert await harness.runs.attempts(bystander.id) == []
        # The dead node was alive after all: its results, and its reports, come too late.
        before = await harness.runs.attempts(told.id)
        late = [_failed(replace(run, node="dead"), report=HALF) for run in (again, lost, told)]
        assert await harness.finish(late) == [False] * 3
        await harness.runs.report("dead", {(told.id, told.claim): Report(1.0)})
        assert await harness.runs.attempts(told.id) == before
        assert len(await harness.runs.attempts(lost.id)) == 1

    # -- reports --------------------------------------------------------------------------------

    async def test_report_is_there_while_the_attempt_runs(self, harness: Harness) -> None:
        run, silent = await harness.claimed_run("a"), await harness.claimed_run("b")
        other = await harness.another()
        assert await other.runs.reported([run.id, silent.id]) == {}
        before = await harness.now()
        await harness.runs.report("node", {(run.id, run.claim): HALF})
        assert await other.runs.reported([run.id, silent.id, silent.id + 1_000]) == {
            run.id: replace(HALF, log="")
        }
        [attempt] = await other.runs.attempts(run.id)
        assert attempt.reported_at is not None
        assert before <= attempt.reported_at <= await harness.now()
        assert replace(attempt, reported_at=None) == Attempt(
            run.id,
            run.claim,
            1,
            "node",
            _claimed_at(run),
            progress=0.5,
            message="page 15 of 30",
            log="one\ntwo\n",
            log_dropped=3,
        )
        assert await harness.run(run.id) == run

    async def test_later_report_replaces_the_earlier(self, harness: Harness) -> None:
        run, other = await harness.claimed_run("a"), await harness.claimed_run("b")
        await harness.runs.report("node", {(run.id, run.claim): HALF, (other.id, 1): HALF})
        later = Report(None, "", "one\ntwo\nthree\n")
        await harness.runs.report("node", {(run.id, run.claim): later})
        assert _told((await harness.runs.attempts(run.id))[0]) == later
        assert _told((await harness.runs.attempts(other.id))[0]) == HALF

    async def test_only_the_present_claim_reports(self, harness: Harness) -> None:
        run, waiting = await harness.claimed_run("a"), await harness.waiting_run("b")
        await harness.runs.report("other", {(run.id, run.claim): HALF})
        await harness.runs.report(
            "node",
            {
                (run.id, run.claim + 1): HALF,
                (run.id, 0): HALF,
                (waiting.id, 0): HALF,
                (waiting.id + 1_000, 1): HALF,
            },
        )
        await harness.runs.report("node", {})
        assert await harness.finish([_result(run)]) == [True]
        await harness.runs.report("node", {(run.id, run.claim): HALF})
        assert await harness.runs.attempts(run.id) == []
        assert await harness.runs.attempts(waiting.id) == []

    async def test_last_report_comes_with_the_result(self, harness: Harness) -> None:
        ended = [await harness.claimed_run(name) for name in "abc"]
        reports = {(run.id, run.claim): HALF for run in ended[:2]}
        await harness.runs.report("node", reports)
        last = Report(1.0, "done", "one\ntwo\nthree\n")
        results = [
            _result(ended[0], report=last),
            _failed(ended[1]),
            _failed(ended[2], report=last),
        ]
        assert await harness.finish(results) == [True] * 3
        for run, outcome, told in zip(
            ended,
            (AttemptOutcome.SUCCEEDED, AttemptOutcome.FAILED, AttemptOutcome.FAILED),
            (last, HALF, last),
            strict=True,
        ):
            [attempt] = await harness.runs.attempts(run.id)
            assert (attempt.outcome, _told(attempt)) == (outcome, told)
            assert attempt.ended_at is not None
        assert await harness.runs.reported([run.id for run in ended]) == {}

    async def test_report_of_an_earlier_claim_is_not_that_of_the_present(
        self, harness: Harness
    ) -> None:
        run = await harness.claimed_run("a")
        assert await harness.finish([_result(run, state=RunState.WAITING, report=HALF)]) == [True]
        run = await _again(harness, run)
        assert await harness.runs.reported([run.id]) == {}

    async def test_any_text_is_kept(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        text = "tab\t bell\a escape\x1b[31m quotes '\" backslash \\ é € 漢 \U0001f600\r\n"
        await harness.runs.report("node", {(run.id, run.claim): Report(0.1, text, text * 1_000)})
        [attempt] = await harness.runs.attempts(run.id)
        assert (attempt.message, attempt.log) == (text, text * 1_000)

    async def test_completed_attempt_may_still_tell_its_last_words(self, harness: Harness) -> None:
        silent, talker = await harness.claimed_run("a"), await harness.claimed_run("b")
        lent, joined = await join(harness)
        completed = [_result(silent), _result(talker, report=HALF)]
        assert (await joined.runs.claim("node", (), 0, completed)).kept == [True, True]
        lent.commit()
        last = Report(1.0, "done", "one\ntwo\nthree\n")
        repeated = [_result(run, report=last) for run in (silent, talker)]
        assert await harness.finish(repeated) == [True, True]
        for run in (silent, talker):
            [attempt] = await harness.runs.attempts(run.id)
            assert (attempt.outcome, _told(attempt)) == (AttemptOutcome.SUCCEEDED, last)
            assert attempt.ended_at == (await harness.run(run.id)).finished_at

    async def test_report_of_a_transaction_that_is_rolled_back_never_was(
        self, harness: Harness
    ) -> None:
        run = await harness.claimed_run("a")
        lent, joined = await join(harness)
        assert (await joined.runs.claim("node", (), 0, [_failed(run, report=HALF)])).kept == [True]
        lent.rollback()
        assert await harness.runs.attempts(run.id) == []

    # -- kept and deleted -----------------------------------------------------------------------

    async def test_retry_keeps_them(self, harness: Harness) -> None:
        run = await harness.claimed_run("a")
        assert await harness.finish([_failed(run)]) == [True]
        assert await harness.runs.retry([run.id]) == {run.id: True}
        run = await _again(harness, run)
        assert await harness.finish([_failed(run)]) == [True]
        assert [a.attempt for a in await harness.runs.attempts(run.id)] == [1, 2]

    async def test_they_are_deleted_with_their_run(self, harness: Harness) -> None:
        gone, waits = await harness.claimed_run("a"), await harness.claimed_run("b")
        results = [_failed(gone), _result(waits, state=RunState.WAITING)]
        assert await harness.finish(results) == [True, True]
        await harness.advance(harness.ttl)
        await harness.runs.prune(None, harness.ttl / 2, 100, dry_run=True)
        assert len(await harness.runs.attempts(gone.id)) == 1
        await harness.runs.prune(None, harness.ttl / 2, 100)
        assert await harness.runs.find([gone.id]) == []
        assert await harness.runs.attempts(gone.id) == []
        assert len(await harness.runs.attempts(waits.id)) == 1

    async def test_endless_retries_leave_the_first_and_the_last(self, harness: Harness) -> None:
        fence = await harness.in_office()
        run = await harness.claimed_run("a", "node")
        most = FIRST_ATTEMPTS + LAST_ATTEMPTS
        for number in range(1, most + 6):
            if number == most + 3:
                await harness.runs.recover(fence, "node", 1_000)
            elif number == most + 4:
                await harness.runs.report("node", {(run.id, run.claim): HALF})
                assert await harness.finish([_result(run, state=RunState.WAITING)]) == [True]
            else:
                assert await harness.finish([_result(run, state=RunState.WAITING)]) == [True]
            kept = [attempt.attempt for attempt in await harness.runs.attempts(run.id)]
            last = range(max(FIRST_ATTEMPTS, number - LAST_ATTEMPTS) + 1, number + 1)
            assert kept == [*range(1, min(number, FIRST_ATTEMPTS) + 1), *last]
            run = await _again(harness, run)


def _result(run: RunRecord, **more: Any) -> Result:
    more.setdefault("state", RunState.SUCCEEDED)
    return Result(run.id, run.claim, run.node or "", **more)


def _failed(run: RunRecord, **more: Any) -> Result:
    more.setdefault("error", "why")
    return _result(run, state=RunState.FAILED, failed=True, **more)


def _told(attempt: Attempt) -> Report:
    return Report(attempt.progress, attempt.message, attempt.log, attempt.log_dropped)


def _claimed_at(run: RunRecord) -> Any:
    assert run.claimed_at is not None
    return run.claimed_at


async def _again(harness: Harness, run: RunRecord, node: str = "node") -> RunRecord:
    """Its next claim."""
    [claimed] = (await harness.runs.claim(node, [run.task], 1)).runs
    assert claimed.id == run.id
    return claimed
