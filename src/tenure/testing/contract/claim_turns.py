"""Clauses of `RunStore.claim`: tenants take turns when more waits than a call may take."""

from __future__ import annotations

from typing import Any

from tenure.model import OnCrash, Overlap, Result, RunRecord, RunState
from tenure.testing.contract.harness import TASK, Harness, firing


async def put(
    harness: Harness, tenant: str | None, count: int, name: str | None = None, **options: Any
) -> list[int]:
    """So many waiting runs of a tenant, the oldest first."""
    name = name or f"of {tenant}"
    options = {"overlap": Overlap.ALLOW, "tenant": tenant, **options}
    keys = [f"{name} {number}" for number in range(count)]
    return [(await harness.waiting_run(name, key, **options)).id for key in keys]


async def take(harness: Harness, limit: int, ahead: int = 0) -> list[int]:
    return [run.id for run in (await harness.runs.claim("node", [TASK], limit, (), ahead)).runs]


class ClaimTurnsContract:
    """Whose runs a claim takes."""

    async def test_tenants_take_turns_when_more_waits_than_fits(self, harness: Harness) -> None:
        loud = await put(harness, "loud", 8)
        quiet, nobody = await put(harness, "quiet", 1), await put(harness, None, 1)
        taken = await take(harness, 6)
        assert set(taken[:3]) == {loud[0], *quiet, *nobody}
        assert taken[3:] == loud[1:4]
        assert await take(harness, 9) == loud[4:]

    async def test_oldest_are_taken_first_if_all_fit(self, harness: Harness) -> None:
        ids = await put(harness, "b", 2) + await put(harness, None, 2) + await put(harness, "a", 2)
        assert await take(harness, 7) == ids

    async def test_each_tenant_gets_an_equal_share_its_oldest_first(self, harness: Harness) -> None:
        queues = {tenant: await put(harness, tenant, 9) for tenant in ("b", None, "a")}
        for first in (0, 2, 4):
            taken = await take(harness, 6)
            for ids in queues.values():
                assert [id_ for id_ in taken if id_ in ids] == ids[first : first + 2]

    async def test_runs_without_a_tenant_are_one_tenant_whenever_they_came(
        self, harness: Harness
    ) -> None:
        """Also those that waited before any run of a tenant did."""
        nobody = await put(harness, None, 2)
        loud = await put(harness, "loud", 9)
        nobody += await put(harness, None, 4, "later")
        for first in (0, 2, 4):
            taken = await take(harness, 4)
            assert [id_ for id_ in taken if id_ in nobody] == nobody[first : first + 2]
            assert [id_ for id_ in taken if id_ in loud] == loud[first : first + 2]

    async def test_more_tenants_than_fit_have_their_turns_one_call_after_the_other(
        self, harness: Harness
    ) -> None:
        await put(harness, "loud", 20)
        quiet = [(await put(harness, f"quiet {n}", 1))[0] for n in range(4)]
        quiet += await put(harness, None, 1)
        seen: set[int] = set()
        for _ in range(6):
            [run] = await take(harness, 1)
            seen.add(run)
        assert set(quiet) <= seen

    async def test_many_tenants_all_have_their_turns(self, harness: Harness) -> None:
        loud = await put(harness, "loud", 99)
        quiet = [(await put(harness, f"quiet {n:02}", 1))[0] for n in range(50)]
        taken = [run for _ in range(12) for run in await take(harness, 9)]
        assert set(quiet) <= set(taken)
        assert [run for run in taken if run in loud] == loud[: len(taken) - 50]

    async def test_higher_priority_goes_first_whosever_it_is(self, harness: Harness) -> None:
        low = await put(harness, "loud", 5) + await put(harness, "quiet", 1)
        high = await put(harness, "loud", 3, "high", priority=1)
        taken = await take(harness, 5)
        assert taken[:3] == high
        assert set(taken[3:]) == {low[0], low[5]}

    async def test_turns_are_those_of_each_priority(self, harness: Harness) -> None:
        """Claims that find others of a higher priority in between take nobody's turn away."""
        for tenant in ("a", "b"):
            await put(harness, tenant, 9)
        quiet = await put(harness, "c", 1)
        seen: list[int] = []
        for number in range(3):
            for tenant in ("a", "b"):
                await put(harness, tenant, 1, f"{tenant} high {number}", priority=1)
            seen += await take(harness, 1) + await take(harness, 1) + await take(harness, 1)
        assert quiet[0] in seen

    async def test_tenant_of_whom_nothing_can_be_claimed_takes_nobodys_turn(
        self, harness: Harness
    ) -> None:
        await put(harness, "elsewhere", 2, task="another")
        locked: dict[str, Any] = {"overlap": Overlap.QUEUE, "lock": "shared"}
        await put(harness, "locked", 3, **locked)
        [first] = await take(harness, 1)
        later = await put(harness, "later", 1)
        [run] = await take(harness, 1)
        assert run == later[0]
        assert await harness.finish(
            [Result(run, 1, "node", RunState.WAITING, delay=harness.ttl * 50)]
        ) == [True]
        a, b = await put(harness, "a", 5), await put(harness, "b", 5)
        taken = await take(harness, 4)
        assert (sorted(taken), first in taken) == (sorted(a[:2] + b[:2]), False)

    async def test_lock_key_that_tenants_share_keeps_its_order(self, harness: Harness) -> None:
        queued = []
        for number in range(3):
            for tenant in ("b", "a", None):
                options: dict[str, Any] = {"overlap": Overlap.QUEUE, "lock": "shared"}
                queued += await put(harness, tenant, 1, f"{tenant} {number}", **options)
        await put(harness, "loud", 20)
        began: list[int] = []
        results: list[Result] = []
        while len(began) < len(queued):
            batch = await harness.runs.claim("node", [TASK], 2, results)
            began += [run.id for run in batch.runs if run.lock]
            results = [Result(r.id, r.claim, "node", RunState.SUCCEEDED) for r in batch.runs]
            assert batch.runs
        assert began == queued

    async def test_what_is_claimed_ahead_would_be_run_again_also_in_turns(
        self, harness: Harness
    ) -> None:
        loud = await put(harness, "loud", 9)
        abandoned = await put(harness, "quiet", 2, on_crash=OnCrash.ABANDON)
        taken = await take(harness, 2, ahead=4)
        assert set(taken[:2]) == {loud[0], abandoned[0]}
        assert set(taken[2:]) <= set(loud)
        [run] = await take(harness, 1)
        assert run in (loud[1:] + abandoned)
        for place, id_ in enumerate(await take(harness, 2, ahead=4)):
            assert place < 2 or id_ in loud

    async def test_results_free_locks_for_those_of_a_higher_priority(
        self, harness: Harness
    ) -> None:
        await put(harness, "loud", 9)
        options: dict[str, Any] = {"overlap": Overlap.QUEUE, "lock": "shared", "priority": 1}
        first, second = await put(harness, "quiet", 2, **options)
        [run] = (await harness.runs.claim("node", [TASK], 1)).runs
        assert run.id == first
        for _ in range(2):
            await take(harness, 1)
        result = Result(run.id, run.claim, "node", RunState.SUCCEEDED)
        batch = await harness.runs.claim("node", [TASK], 1, [result])
        assert (batch.kept, [run.id for run in batch.runs]) == ([True], [second])

    async def test_nodes_that_claim_at_the_same_time_leave_nothing(self, harness: Harness) -> None:
        ids = await put(harness, "loud", 12) + await put(harness, "quiet", 3)
        ids += await put(harness, None, 3)
        taken: list[int] = []
        nodes = [backend.runs for backend in await harness.backends(3)]
        for _ in range(4):
            for runs in nodes:
                taken += [run.id for run in (await runs.claim("node", [TASK], 2)).runs]
        assert sorted(taken) == sorted(ids)

    async def test_run_has_the_tenant_of_its_schedule(self, harness: Harness) -> None:
        fence = await harness.in_office()
        for tenant in ("acme", None):
            schedule = await harness.add(f"of {tenant}", tenant=tenant, overlap=Overlap.ALLOW)
            nominal = schedule.next_nominal
            assert nominal is not None
            await harness.schedules.fire(fence, [firing(schedule)])
            await harness.schedules.run_now(schedule.name, "now")
            await harness.schedules.backfill(schedule.name, [nominal.replace(year=2001)])
            runs = await harness.runs.find(schedule=schedule.name)
            assert {run.kind for run in runs} == {"planned", "manual", "backfill"}
            assert {run.tenant for run in runs} == {tenant}
        claimed: list[RunRecord] = (await harness.runs.claim("node", [TASK], 9)).runs
        assert sorted(str(run.tenant) for run in claimed) == ["None"] * 3 + ["acme"] * 3
