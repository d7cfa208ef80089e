"""Clauses of `OverviewStore`: lists for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tenure.backends.base import LAST_OF_ERROR
from tenure.model import FACET_VALUES, Facets, Kind, Overlap, Result, RunState, Sought
from tenure.testing.contract.harness import Harness, replacing
from tenure.testing.contract.history import SECOND, fire, planned


class OverviewContract:
    """Schedules that are sought; runs and occurrences, as much of them as a list shows."""

    async def test_schedules_are_found_by_what_is_known_of_them(self, harness: Harness) -> None:
        await harness.add("Daily digest", 3600, tenant="acme", app="shop")
        await harness.add("daily backup", 3600, app="shop")
        late = await harness.add("sweep_100%", 0)
        [paused] = await harness.schedules.change(
            [replacing(await harness.add("paused", 3600), active=False, reason="orphaned: gone")]
        )
        await harness.advance(harness.ttl)

        async def found(**sought: object) -> list[str]:
            return [s.name for s in await harness.backend.overview.schedules(Sought(**sought))]  # type: ignore[arg-type]

        everything = await harness.schedules.find()
        assert await found() == list(everything)
        assert await found(text="DAILY") == [n for n in everything if "aily" in n]
        assert await found(text="_100%") == [late.name]
        assert await found(text="100_") == []
        assert await found(text="\\") == []
        assert await found(tenant="acme") == ["Daily digest"]
        assert await found(app="shop", text="back") == ["daily backup"]
        assert await found(active=False) == await found(reason="orphaned") == [paused.name]
        assert await found(active=True, reason="orphaned") == []
        assert await found(late=harness.ttl / 2) == [late.name]
        assert await found(late=harness.ttl * 100) == []

    async def test_schedules_are_counted_by_what_is_known_of_them(self, harness: Harness) -> None:
        fence, overview = await harness.in_office(), harness.backend.overview
        assert await overview.facets(1.0, "orphaned") == Facets(0, 0, 0, 0, 0, (), ())
        await harness.add("a", 3600, tenant="acme", app="shop")
        await harness.add("b", 3600, tenant="acme", app="site")
        await harness.add("c", 0, app="shop")
        for name, reason in (("d", "orphaned: gone"), ("e", "by hand")):
            added = await harness.add(name, 3600, tenant="umbra")
            await harness.schedules.change([replacing(added, active=False, reason=reason)])
        for number in range(2):
            run = await harness.claimed_run("f", key=str(number))
            await harness.finish([Result(run.id, run.claim, "node", RunState.FAILED)])
        await harness.add("gone", 0, tenant="gone", app="gone")
        await harness.schedules.remove("gone")
        await harness.advance(harness.ttl)
        await harness.backend.summaries.advance(fence, 10, 0.0)
        assert await overview.facets(harness.ttl / 2, "orphaned") == Facets(
            all=6,
            failing=1,
            late=1,
            inactive=2,
            orphaned=1,
            tenants=(("acme", 2), ("umbra", 2)),
            apps=(("shop", 2), ("site", 1)),
        )
        assert [s.name for s in await overview.schedules(Sought(failing=True))] == ["f"]
        assert await overview.schedules(Sought(failing=True, tenant="acme")) == []
        assert await overview.schedules(Sought(failing=True), after="f") == []

    async def test_no_more_tenants_are_counted_than_fit_on_a_page(self, harness: Harness) -> None:
        names = [f"tenant {number:02}" for number in range(FACET_VALUES + 1)]
        for name in reversed(names):
            await harness.add(name, 3600, tenant=name)
        found = (await harness.backend.overview.facets(1.0, "orphaned")).tenants
        assert found == tuple((name, 1) for name in names[:FACET_VALUES])

    async def test_list_of_schedules_continues_behind_a_name(self, harness: Harness) -> None:
        for name in ("a", "b", "c"):
            await harness.add(name, 0)
        await harness.advance(1.0)
        for sought in (Sought(), Sought(late=0.0)):
            first = await harness.backend.overview.schedules(sought, limit=2)
            rest = await harness.backend.overview.schedules(sought, after="b")
            assert [s.name for s in (*first, *rest)] == ["a", "b", "c"]
            assert rest == [await harness.the("c")]

    async def test_runs_come_without_what_may_be_large(self, harness: Harness) -> None:
        first = await harness.claimed_run("a", kwargs='{"x": 1}')
        second = await harness.waiting_run("b", kwargs='{"x": 2}')
        error = "x" * LAST_OF_ERROR + "the end"
        await harness.finish(
            [Result(first.id, first.claim, first.node or "", RunState.FAILED, error, value="1")]
        )
        overview = harness.backend.overview
        waits, failed = await overview.runs()
        assert (waits.id, failed.id) == (second.id, first.id)
        assert (failed.arguments, failed.result) == ("{}", None)
        assert failed.error == error[-LAST_OF_ERROR:]
        assert (failed.schedule, failed.state) == ("a", RunState.FAILED)
        assert await overview.runs(limit=1) == [waits]
        assert await overview.runs(below=second.id) == [failed]
        assert await overview.runs([first.id, 12_345]) == [failed]
        assert await overview.runs([]) == []

    async def test_unfinished_runs_are_found_by_their_state(self, harness: Harness) -> None:
        claimed = await harness.claimed_run("a", overlap=Overlap.ALLOW)
        waits = [await harness.waiting_run("b", key, overlap=Overlap.QUEUE) for key in "123"]
        overview = harness.backend.overview
        assert [run.id for run in await overview.unfinished("claimed")] == [claimed.id]
        assert [run.id for run in await overview.unfinished("waiting")] == [
            run.id for run in reversed(waits)
        ]
        assert len(await overview.unfinished("waiting", limit=2)) == 2

    async def test_last_occurrences_of_a_schedule(self, harness: Harness) -> None:
        run = await harness.waiting_run("a", "asked for")
        nominals = [run.nominal - timedelta(hours=n) for n in (30, 20, 10)]
        schedule = await harness.the("a")
        await harness.schedules.backfill("a", nominals, beyond_history=True)
        found = await harness.backend.overview.occurrences(schedule.uid)
        assert found == await harness.schedules.occurrences("a")
        assert {o.kind for o in found} == {Kind.MANUAL, Kind.BACKFILL}
        assert run.id in {o.run_id for o in found}
        assert await harness.backend.overview.occurrences(schedule.uid, limit=2) == found[:2]
        assert await harness.backend.overview.occurrences(12_345) == []
        until = await harness.backend.overview.occurrences(schedule.uid, until=nominals[1])
        assert [o.nominal for o in until] == nominals[1::-1]

    async def test_last_planned_occurrences_until_a_time(self, harness: Harness) -> None:
        fence = await harness.in_office()
        schedule, first = await planned(harness)
        for second in range(3):
            await fire(harness, fence, schedule, first + second * SECOND)
        overview = harness.backend.overview

        async def until(moment: datetime, limit: int = 50) -> list[datetime]:
            found = await overview.occurrences(schedule.uid, limit, until=moment)
            return [o.nominal for o in found]

        assert await until(first + SECOND) == [first + SECOND, first]
        assert await until(first + 1.5 * SECOND, limit=1) == [first + SECOND]
        assert await until(first - SECOND) == []
        assert len(await until(datetime(9999, 1, 1, tzinfo=UTC))) == 3
        assert await until(datetime(1990, 1, 1, tzinfo=UTC)) == []
