"""Clauses of `RunStore.claim`: at most so many runs of a task are claimed at a time."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.backends.base import RUNS, Backend, Lends
from tenure.backends.shared.claim_turns import NEAR
from tenure.model import (
    Edition,
    NewRun,
    OnCrash,
    Overlap,
    Result,
    RunRecord,
    RunState,
    TaskRule,
)
from tenure.testing.contract.harness import Harness, finish, together
from tenure.testing.contract.wakeups import wakes

SLOW, OTHER = "contract.slow", "contract.other"
BOTH = [SLOW, OTHER]


async def limit(harness: Harness, most: int | None, app: str = "shop", task: str = SLOW) -> None:
    await harness.editions.set_rules(app, {task: TaskRule(max_running=most)})


async def put(harness: Harness, count: int, task: str = SLOW, **options: Any) -> list[int]:
    """So many waiting runs of a task, the oldest first."""
    name = options.pop("name", f"{task} {sorted(options.items())}")
    options = {"overlap": Overlap.ALLOW, "task": task, **options}
    keys = [f"{name} {number}" for number in range(count)]
    return [(await harness.waiting_run(name, key, **options)).id for key in keys]


async def take(
    harness: Harness, limit: int, results: list[Result] | None = None, ahead: int = 0
) -> list[RunRecord]:
    return (await harness.runs.claim("node", BOTH, limit, results or [], ahead)).runs


def ids(runs: list[RunRecord]) -> list[int]:
    return [run.id for run in runs]


def success(run: RunRecord) -> Result:
    return Result(run.id, run.claim, run.node or "", RunState.SUCCEEDED)


class LimitContract:
    """`max_running` of a task."""

    async def test_no_more_runs_are_claimed_than_the_limit_by_all_nodes(
        self, harness: Harness
    ) -> None:
        waiting = await put(harness, 5)
        await limit(harness, 2)
        other = await harness.another()
        assert ids((await other.runs.claim("elsewhere", BOTH, 1)).runs) == waiting[:1]
        assert ids(await take(harness, 5)) == waiting[1:2]
        assert await take(harness, 5) == []

    async def test_what_is_claimed_in_advance_counts(self, harness: Harness) -> None:
        waiting = await put(harness, 5)
        await limit(harness, 3)
        assert ids(await take(harness, 1, ahead=4)) == waiting[:3]

    async def test_limit_counts_runs_that_were_claimed_before_it(self, harness: Harness) -> None:
        waiting = await put(harness, 5)
        claimed = await take(harness, 3)
        await limit(harness, 2)
        assert await take(harness, 5, [success(claimed[0])]) == []
        assert ids(await take(harness, 5, [success(claimed[1])])) == waiting[3:4]

    async def test_result_makes_room_in_the_same_call(self, harness: Harness) -> None:
        waiting = await put(harness, 4)
        await limit(harness, 1)
        claimed = await take(harness, 2)
        for expected in waiting[1:]:
            claimed = await take(harness, 2, [success(claimed[0])])
            assert ids(claimed) == [expected]

    @pytest.mark.parametrize("of", ["a full task", "a task of others"])
    async def test_backlog_of_another_task_costs_its_tenant_no_share(
        self, harness: Harness, of: str
    ) -> None:
        other = SLOW if of == "a full task" else "contract.elsewhere"
        for number in range(NEAR + 1):
            await harness.runs.enqueue(NewRun(other, f"{number}", tenant="a"))
        if other == SLOW:
            await limit(harness, 1)
            assert len(await take(harness, 1)) == 1
        loud = await put(harness, 8, OTHER, name="loud", tenant="b")
        quiet = await put(harness, 2, OTHER, name="quiet", tenant="a")
        assert sorted(ids(await take(harness, 4))) == sorted([*loud[:2], *quiet])

    async def test_recovered_run_makes_room(self, harness: Harness) -> None:
        fence = await harness.in_office()
        waiting = await put(harness, 2, on_crash=OnCrash.ABANDON)
        await limit(harness, 1)
        assert ids((await harness.runs.claim("dead", BOTH, 2)).runs) == waiting[:1]
        await harness.runs.recover(fence, "dead", 3)
        assert ids(await take(harness, 2)) == waiting[1:]

    async def test_order_across_tasks_is_kept(self, harness: Harness) -> None:
        await limit(harness, 2)
        first = await put(harness, 1, OTHER, name="first")
        slow = await put(harness, 3)
        last = await put(harness, 2, OTHER, name="last")
        urgent = await put(harness, 1, priority=1)
        assert ids(await take(harness, 1)) == urgent
        assert ids(await take(harness, 1)) == first
        assert ids(await take(harness, 2)) == [slow[0], last[0]]

    async def test_runs_without_room_hide_no_others(self, harness: Harness) -> None:
        await limit(harness, 1)
        await put(harness, 300)
        assert len(await take(harness, 2)) == 1
        other = await put(harness, 2, OTHER)
        assert ids(await take(harness, 2)) == other

    async def test_higher_priorities_of_a_task_share_its_room(self, harness: Harness) -> None:
        await limit(harness, 2)
        low, high = await put(harness, 2), await put(harness, 1, priority=1)
        assert ids(await take(harness, 5)) == [*high, low[0]]

    async def test_next_due_time_is_told_of_tasks_with_a_limit(self, harness: Harness) -> None:
        await limit(harness, 1)
        [run] = await put(harness, 1)
        [claimed] = await take(harness, 1)
        back = Result(run, claimed.claim, "node", RunState.WAITING, delay=harness.ttl * 50)
        batch = await harness.runs.claim("node", BOTH, 1, [back])
        assert (batch.runs, batch.next_due) == ([], (await harness.run(run)).due)

    async def test_rule_that_says_nothing_ends_the_limit(self, harness: Harness) -> None:
        waiting = await put(harness, 3)
        await limit(harness, 1)
        assert len(await take(harness, 3)) == 1
        await limit(harness, None)
        assert ids(await take(harness, 3)) == waiting[1:]
        assert (await harness.editions.declared("shop")).rules == {}

    async def test_least_limit_of_all_apps_counts(self, harness: Harness) -> None:
        await put(harness, 5)
        for most, app in ((3, "shop"), (2, "bank"), (4, "mail")):
            await limit(harness, most, app)
        assert len(await take(harness, 5)) == 2
        assert (await harness.editions.declared("mail")).rules == {SLOW: TaskRule(4)}

    async def test_rules_of_other_tasks_stay(self, harness: Harness) -> None:
        await limit(harness, 3)
        await limit(harness, 1, task=OTHER)
        await limit(harness, 2)
        rules = (await harness.editions.declared("shop")).rules
        assert rules == {SLOW: TaskRule(2), OTHER: TaskRule(1)}

    async def test_release_is_stored_with_what_it_says_about_tasks(self, harness: Harness) -> None:
        rules = {SLOW: TaskRule(3), OTHER: TaskRule()}
        await harness.editions.announce("shop", Edition("new", {}, tasks=rules))
        [stored] = (await harness.editions.declared("shop")).editions
        assert stored.tasks == rules

    async def test_run_behind_a_lock_key_takes_no_room(self, harness: Harness) -> None:
        await limit(harness, 2)
        locked: dict[str, Any] = {"lock": "shared", "overlap": Overlap.QUEUE}
        queued = await put(harness, 120, **locked)
        free = await put(harness, 2)
        assert ids(await take(harness, 5)) == [queued[0], free[0]]

    async def test_tenants_take_turns_for_the_room_of_a_task(self, harness: Harness) -> None:
        await limit(harness, 1)
        loud = await put(harness, 9, tenant="loud")
        quiet = await put(harness, 1, tenant="quiet") + await put(harness, 1)
        claimed: list[RunRecord] = []
        began: list[int] = []
        for _ in range(6):
            claimed = await take(harness, 5, [success(run) for run in claimed])
            began += ids(claimed)
        assert set(quiet) <= set(began)
        assert [run for run in began if run in loud] == loud[:4]

    async def test_tenants_take_turns_among_all_tasks(self, harness: Harness) -> None:
        await limit(harness, 2)
        loud = await put(harness, 9, OTHER, tenant="loud")
        quiet = await put(harness, 5, tenant="quiet")
        taken = ids(await take(harness, 4))
        assert sorted(taken) == sorted(loud[:2] + quiet[:2])
        assert ids(await take(harness, 3)) == loud[2:5]

    async def test_claims_at_the_same_time_keep_to_the_limit(self, harness: Harness) -> None:
        waiting = await put(harness, 24)
        other = await put(harness, 6, OTHER)
        await limit(harness, 3)
        backends = await harness.backends(4)
        results: dict[str, list[Result]] = {f"node {n}": [] for n in range(4)}
        claimed: dict[int, RunRecord] = {}
        ended: list[int] = []

        async def claim(number: int) -> None:
            node = f"node {number}"
            reported, results[node] = results[node], []
            batch = await backends[number].runs.claim(node, BOTH, 2, reported)
            results[node] += [success(run) for run in batch.runs]
            ended.extend(result.run_id for result in reported)
            claimed.update({run.id: run for run in batch.runs})

        for _ in range(40):
            answers = await together(*(claim(number) for number in range(4)))
            assert answers == [None] * 4
            running = await harness.runs.find(state="claimed", task=SLOW)
            assert len(running) <= 3
        assert sorted(claimed) == sorted(waiting + other)

    async def test_room_that_a_report_makes_wakes_the_workers(self, harness: Harness) -> None:
        await limit(harness, 1)
        await put(harness, 2)
        [run] = await take(harness, 2)
        await wakes(harness, RUNS, lambda b: finish(b, [success(run)]))

    async def test_room_that_a_transactional_task_makes_wakes_the_workers(
        self, harness: Harness
    ) -> None:
        await limit(harness, 1)
        await put(harness, 2)
        [run] = await take(harness, 2)

        async def commit(backend: Backend) -> None:
            if not isinstance(backend, Lends):
                pytest.skip("this store lends no connections")
            lender = backend.lender(1, 5.0)
            with lender.lend(None) as lent:
                assert lent.commit(success(run))
            lender.close()

        await wakes(harness, RUNS, commit)

    async def test_room_that_a_node_does_not_fill_wakes_others(self, harness: Harness) -> None:
        await limit(harness, 1)
        await put(harness, 2)
        [run] = await take(harness, 2)
        urgent = await put(harness, 5, OTHER, priority=1)
        taken: list[RunRecord] = []

        async def claim(backend: Backend) -> None:
            taken.extend((await backend.runs.claim("node", BOTH, 1, [success(run)])).runs)

        await wakes(harness, RUNS, claim)
        assert ids(taken) == urgent[:1]

    async def test_greater_limit_wakes_the_workers(self, harness: Harness) -> None:
        rules = {SLOW: TaskRule(2)}
        await limit(harness, 1)
        await wakes(harness, RUNS, lambda b: b.editions.set_rules("shop", rules))

    async def test_lost_run_makes_room_and_wakes_the_workers(self, harness: Harness) -> None:
        fence = await harness.in_office()
        await limit(harness, 1)
        await put(harness, 2, on_crash=OnCrash.ABANDON)
        assert len((await harness.runs.claim("dead", BOTH, 2)).runs) == 1
        await wakes(harness, RUNS, lambda b: b.runs.recover(fence, "dead", 3))
