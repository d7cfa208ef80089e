"""Policies for all tasks of a scheduler, or of a module's `Tasks`: each may say otherwise."""

from __future__ import annotations

import pytest

from tenure import AsyncScheduler, Event, Scheduler, Tasks
from tenure.errors import InvalidSchedule
from tenure.model import CatchUp
from tenure.testing import testing


def nothing() -> None: ...


def test_what_a_task_says_comes_before_the_default() -> None:
    tasks = Tasks(policies={"retries": 3, "catch_up": "none"})
    tasks.task(name="a")(nothing)
    tasks.task(name="b", retries=0)(nothing)
    assert (tasks["a"].policy.retries, tasks["a"].policy.catch_up) == (3, CatchUp.NONE)
    assert (tasks["b"].policy.retries, tasks["b"].policy.catch_up) == (0, CatchUp.NONE)


@pytest.mark.parametrize("make", [Scheduler, AsyncScheduler])
def test_a_scheduler_fills_in_what_included_tasks_leave_open(
    make: type[Scheduler | AsyncScheduler],
) -> None:
    tasks = Tasks(policies={"retries": 3})
    tasks.task(name="a", timeout=5)(nothing)
    scheduler = make("memory://", policies={"retries": 1, "timeout": 60, "priority": 7})
    scheduler.include(tasks)
    policy = scheduler.tasks["a"].policy
    assert (policy.retries, policy.timeout, policy.priority) == (3, 5, 7)
    assert tasks["a"].policy.priority == 0  # those of the module are as they were


def test_schedules_and_runs_have_them_too() -> None:
    scheduler = Scheduler("memory://", policies={"retries": 2, "catch_up": "all"})
    scheduler.task(name="a")(nothing)
    with testing(scheduler):
        added = scheduler.add("daily", "every day", task="a", retries=5)
        assert (added.spec.retries, added.spec.catch_up) == (5, CatchUp.ALL)
        emitted = scheduler.add("month", "0 0 1 * *", emit=Event("ledger", "MonthEnded"))
        assert emitted.spec.catch_up is CatchUp.ALL  # the rest is about runs
        assert scheduler.enqueue("a").retries == 2


def test_a_wrong_default_is_refused_where_it_is_said() -> None:
    with pytest.raises(InvalidSchedule, match=r"policies: unknown option 'retrys'\. .*'retries'"):
        Tasks(policies={"retrys": 3})
    with pytest.raises(InvalidSchedule, match="catch_up='sometimes'"):
        Scheduler("memory://", policies={"catch_up": "sometimes"})
