"""Clauses of `Joins`: changes inside a transaction of the caller's own."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tenure.backends.base import RUNS, SCHEDULES, Joined, Joins
from tenure.errors import Conflict
from tenure.model import Fault, Fired
from tenure.testing.contract.harness import (
    Harness,
    Lent,
    adding,
    firing,
    replacing,
    skip_unless,
)


class JoiningContract:
    """Each transaction is a user's; the harness looks from outside."""

    async def test_change_is_seen_by_others_when_it_is_committed(self, harness: Harness) -> None:
        lent, joined = await join(harness)
        [added] = await joined.schedules.change([adding("a", None)])
        assert await joined.schedules.find(["a"]) == {"a": added}
        assert await harness.schedules.find(["a"]) == {}
        lent.commit()
        assert await harness.schedules.find(["a"]) == {"a": added}

    async def test_change_that_is_rolled_back_never_was(self, harness: Harness) -> None:
        old = await harness.add("a", due_in=harness.ttl)
        lent, joined = await join(harness)
        await joined.schedules.change([adding("b", None), replacing(old, active=False)])
        run_id, new = await joined.schedules.run_now("b", "key")
        assert new
        assert run_id is not None
        assert len(await joined.runs.find([run_id])) == 1
        assert await joined.schedules.remove("a")
        lent.rollback()
        assert list((await harness.schedules.find()).values()) == [old]
        assert await harness.runs.find() == []
        assert await harness.schedules.occurrences("b") == []

    async def test_refused_change_undoes_itself_and_nothing_else(self, harness: Harness) -> None:
        old = await harness.add("a", due_in=harness.ttl)
        lent, joined = await join(harness)
        [before] = await joined.schedules.change([adding("before", None)])
        for refused in (
            [adding("b", None), adding("a", None)],
            [replacing(old, reason="edited"), adding("before", None)],
            [adding("b", None), adding("b", None)],
        ):
            with pytest.raises(Conflict):
                await joined.schedules.change(refused)
        assert not await joined.schedules.remove("nobody")
        [after] = await joined.schedules.change([adding("z", None)])
        lent.commit()
        assert list((await harness.schedules.find()).values()) == [old, before, after]

    async def test_schedule_is_compared_as_the_transaction_sees_it(self, harness: Harness) -> None:
        old = await harness.add("a", due_in=harness.ttl)
        lent, joined = await join(harness)
        [new] = await joined.schedules.change([replacing(old, reason="first")])
        with pytest.raises(Conflict):
            await joined.schedules.change([replacing(old, reason="second")])
        await joined.schedules.change([replacing(new, reason="third")])
        lent.commit()
        assert (await harness.the("a")).reason == "third"

    async def test_same_key_gives_the_same_run(self, harness: Harness) -> None:
        await harness.add("a", due_in=harness.ttl)
        lent, joined = await join(harness)
        run_id, new = await joined.schedules.run_now("a", "key")
        assert new
        assert await joined.schedules.run_now("a", "key") == (run_id, False)
        lent.commit()
        assert await harness.schedules.run_now("a", "key") == (run_id, False)

    async def test_commit_wakes_the_leader_and_the_workers(self, harness: Harness) -> None:
        schedules, runs = asyncio.Event(), asyncio.Event()
        stops = [
            harness.backend.wakeups.subscribe(SCHEDULES, schedules.set),
            harness.backend.wakeups.subscribe(RUNS, runs.set),
        ]
        lent, joined = await join(harness)
        await joined.schedules.change([adding("a", None)])
        await joined.schedules.run_now("a", "key")
        lent.commit()
        assert await harness.heard(schedules)
        assert await harness.heard(runs)
        assert len((await harness.runs.claim("node", ["contract.task"], 5)).runs) == 1
        for stop in stops:
            stop()

    async def test_woken_reader_sees_what_was_committed(self, harness: Harness) -> None:
        """Hints may come for nothing; the last of them comes after the commit."""
        seen: list[int] = []
        done = asyncio.Event()

        async def look() -> None:
            seen.append(len(await harness.schedules.find()))
            if seen[-1]:
                done.set()

        looks: list[asyncio.Task[None]] = []
        stop = harness.backend.wakeups.subscribe(
            SCHEDULES, lambda: looks.append(asyncio.ensure_future(look()))
        )
        lent, joined = await join(harness)
        await joined.schedules.change([adding("a", None)])
        assert not await harness.heard(done, patience=0.3)
        lent.commit()
        assert await harness.heard(done)
        stop()
        await asyncio.gather(*looks)

    async def test_open_transaction_on_one_schedule_does_not_stop_the_others(
        self, harness: Harness
    ) -> None:
        if not harness.many_writers:
            pytest.skip("this store has one writer at a time")
        fence, store = await harness.in_office(), harness.schedules
        locked, free = await harness.add("locked"), await harness.add("free")
        lent, joined = await join(harness)
        await joined.schedules.change([replacing(locked, reason="edited")])
        later = await harness.now() + timedelta(seconds=60)
        firings = [firing(schedule, next_nominal=later) for schedule in (locked, free)]
        assert await store.fire(fence, firings) == Fired(fired=1, stale=1)
        [occurrence] = await store.occurrences("free")
        assert occurrence.run_id is not None
        assert await store.occurrences("locked") == []
        lent.rollback()
        assert (await store.fire(fence, firings)).fired == 1

    async def test_open_transaction_on_a_bad_schedule_does_not_stop_the_others(
        self, harness: Harness
    ) -> None:
        if not harness.many_writers:
            pytest.skip("this store has one writer at a time")
        fence, store = await harness.in_office(), harness.schedules
        bad, worse, free = [await harness.add(name) for name in ("bad", "worse", "free")]
        lent, joined = await join(harness)
        await joined.schedules.change([replacing(old, reason="edited") for old in (bad, worse)])
        later = await harness.now() + timedelta(seconds=60)
        expected = worse.next_nominal
        faults = [
            Fault(bad.uid, bad.version, "why"),
            Fault(worse.uid, worse.version, "why", later, expected),
        ]
        done = await store.fire(fence, [firing(free, next_nominal=later)], faults)
        assert done == Fired(fired=1)
        lent.rollback()
        await store.fire(fence, [], faults)
        assert (await harness.the("bad")).reason == "why"
        assert (await harness.the("worse")).next_due == later


async def join(harness: Harness) -> tuple[Lent, Joined]:
    lent = skip_unless(await harness.lend(), "this store has no transactions of users'")
    backend = harness.backend
    assert isinstance(backend, Joins)
    await backend.identify()
    return lent, backend.join(lent.connection)
