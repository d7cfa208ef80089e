"""Clauses of `RunStore`: the run that is added when another has failed, or is lost."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.backends.base import RUNS
from tenure.model import (
    FAILURE_KEY,
    NewRun,
    OnCrash,
    OnFailure,
    Result,
    RunRecord,
    RunState,
    TaskRule,
)
from tenure.testing.contract.harness import Harness, finish
from tenure.testing.contract.wakeups import wakes

ALERT = OnFailure("alert", "phone", 3, 2.5, 4, OnCrash.ABANDON)


async def rule(harness: Harness, task: str = "a", **more: Any) -> None:
    await harness.editions.set_rules("shop", {task: TaskRule(on_failure=ALERT, **more)})


def ended(run: RunRecord, state: RunState = RunState.FAILED, **more: Any) -> Result:
    return Result(run.id, run.claim, run.node or "", state, **{"error": "oh", **more})


async def alerts(harness: Harness) -> list[RunRecord]:
    return await harness.runs.find(task="alert")


class FailureContract:
    """`on_failure` of a task."""

    async def test_timeouts_of_two_rules_may_be_whole_or_not(self, harness: Harness) -> None:
        rules = {
            task: TaskRule(on_failure=OnFailure("alert", timeout=timeout))
            for task, timeout in (("a", 30), ("b", 0.5), ("c", None))
        }
        await harness.editions.set_rules("shop", rules)
        assert (await harness.editions.declared("shop")).rules == rules

    async def test_failed_run_adds_what_its_task_says(self, harness: Harness) -> None:
        await rule(harness)
        run = await harness.claimed_run("a", tenant="acme")
        before = await harness.now()
        assert await harness.finish([ended(run, error="x" * 3_000 + "oh", failed=True)]) == [True]
        [alert] = await alerts(harness)
        assert (alert.state, alert.schedule, alert.tenant) == (RunState.WAITING, None, "acme")
        assert (alert.lock, alert.priority, alert.timeout) == ("phone", 3, 2.5)
        assert (alert.retries, alert.on_crash) == (4, OnCrash.ABANDON)
        assert before <= alert.due <= await harness.now()
        assert alert.kwargs == {
            "failure": {
                "run": run.id,
                "task": "a",
                "schedule": "a",
                "nominal": run.nominal.isoformat(timespec="microseconds"),
                "state": "failed",
                "attempts": 1,
                "error": "x" * 1_998 + "oh",
            }
        }
        [claimed] = (await harness.runs.claim("node", ["alert"], 5)).runs
        assert claimed.id == alert.id

    async def test_repeated_result_adds_nothing(self, harness: Harness) -> None:
        await rule(harness)
        run = await harness.claimed_run("a")
        for _ in range(3):
            assert await harness.finish([ended(run)]) == [True]
        assert len(await alerts(harness)) == 1

    async def test_run_that_fails_again_after_a_retry_tells_again(self, harness: Harness) -> None:
        await rule(harness)
        run = await harness.claimed_run("a")
        await harness.finish([ended(run)])
        await harness.runs.retry([run.id])
        [again] = (await harness.runs.claim("node", ["a"], 1)).runs
        await harness.finish([ended(again)])
        told = [alert.kwargs["failure"]["attempts"] for alert in await alerts(harness)]
        assert told == [2, 1]

    @pytest.mark.parametrize("state", [RunState.SUCCEEDED, RunState.WAITING, RunState.CANCELLED])
    async def test_run_that_did_not_fail_for_good_tells_nobody(
        self, harness: Harness, state: RunState
    ) -> None:
        await rule(harness)
        run = await harness.claimed_run("a")
        assert await harness.finish([ended(run, state)]) == [True]
        assert await alerts(harness) == []

    async def test_result_that_is_refused_tells_nobody(self, harness: Harness) -> None:
        await rule(harness)
        run = await harness.claimed_run("a")
        wrong = Result(run.id, run.claim + 1, run.node or "", RunState.FAILED, "oh")
        assert await harness.finish([wrong]) == [False]
        assert await alerts(harness) == []

    async def test_lost_run_that_was_asked_to_be_cancelled_tells_nobody(
        self, harness: Harness
    ) -> None:
        await rule(harness)
        run = await harness.claimed_run("a")
        await harness.runs.cancel([run.id])
        assert await harness.finish([ended(run, RunState.LOST)]) == [True]
        assert await alerts(harness) == []

    async def test_task_without_a_rule_tells_nobody(self, harness: Harness) -> None:
        await rule(harness, "b")
        run = await harness.claimed_run("a")
        await harness.finish([ended(run)])
        assert await alerts(harness) == []

    async def test_run_that_was_added_so_adds_none(self, harness: Harness) -> None:
        await rule(harness)
        await rule(harness, "alert")
        run = await harness.claimed_run("a")
        await harness.finish([ended(run)])
        [alert] = (await harness.runs.claim("node", ["alert"], 5)).runs
        await harness.finish([ended(alert)])
        assert [each.id for each in await alerts(harness)] == [alert.id]

    async def test_other_runs_of_that_task_tell(self, harness: Harness) -> None:
        await rule(harness, "alert")
        run = await harness.claimed_run("alert")
        await harness.finish([ended(run)])
        assert len(await alerts(harness)) == 2

    async def test_run_that_is_lost_with_its_node_tells(self, harness: Harness) -> None:
        fence = await harness.in_office()
        await rule(harness)
        lost = await harness.claimed_run("a", "dead", on_crash=OnCrash.ABANDON)
        await harness.runs.recover(fence, "dead", 3)
        [alert] = await alerts(harness)
        failure = alert.kwargs["failure"]
        assert (failure["run"], failure["state"]) == (lost.id, "lost")
        assert "dead died" in failure["error"]

    async def test_run_that_is_recovered_tells_nobody(self, harness: Harness) -> None:
        fence = await harness.in_office()
        await rule(harness)
        await harness.claimed_run("a", "dead")
        await harness.runs.recover(fence, "dead", 3)
        assert await alerts(harness) == []

    async def test_what_is_added_wakes_the_workers(self, harness: Harness) -> None:
        await rule(harness)
        run = await harness.claimed_run("a")
        await wakes(harness, RUNS, lambda b: finish(b, [ended(run)]))

    async def test_rule_is_stored_as_it_was_given(self, harness: Harness) -> None:
        await rule(harness, max_running=3)
        assert (await harness.editions.declared("shop")).rules == {"a": TaskRule(3, ALERT)}

    async def test_key_names_the_run_and_its_claim(self, harness: Harness) -> None:
        await rule(harness)
        run = await harness.claimed_run("a")
        await harness.finish([ended(run)])
        [alert] = await alerts(harness)
        same, new = await harness.runs.enqueue(NewRun("alert", f"{FAILURE_KEY}{run.id}:1"))
        assert (same.id, new) == (alert.id, False)
