"""Clauses of `ScheduleStore`: the store's clock, what is due, and how much is to be done."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from tenure.model import Overlap, Result, RunState
from tenure.testing.contract.harness import SCOPE, Harness, adding, replacing


class DueContract:
    """Now, due, backlog."""

    async def test_schedule_is_due_when_its_time_has_come(self, harness: Harness) -> None:
        options = {"overlap": Overlap.QUEUE, "tenant": "acme", "kwargs": '{"who":"Jürgen"}'}
        added = await harness.add("a", due_in=harness.ttl, **options)
        before = await harness.schedules.due(10)
        assert (before.schedules, before.next_due) == ([], added.next_due)
        await harness.advance(harness.ttl)
        batch = await harness.schedules.due(10)
        [due] = batch.schedules
        assert (due.uid, due.name, due.version) == (added.uid, "a", added.version)
        assert (due.next_nominal, due.next_due) == (added.next_nominal, added.next_due)
        assert (due.trigger, due.overlap) == (added.spec.trigger, "queue")
        assert (due.catch_up, due.lock) == ("latest", added.spec.lock)
        assert due.payload == len(added.spec.kwargs.encode())
        assert due.tenant == added.spec.tenant == "acme"
        assert batch.next_due is None
        assert batch.now >= due.next_due

    async def test_what_is_due_soon_can_be_seen_ahead(self, harness: Harness) -> None:
        now, ttl = await harness.now(), harness.ttl
        moments = {name: now + timedelta(seconds=s) for name, s in (("now", 0), ("soon", ttl))}
        moments["later"] = now + timedelta(seconds=3 * ttl)
        await harness.schedules.change([adding(name, at) for name, at in moments.items()])
        batch = await harness.schedules.due(10, 2 * ttl)
        assert [d.name for d in batch.schedules] == ["now", "soon"]
        assert batch.next_due == moments["later"]
        assert now <= batch.now < moments["soon"]
        batch = await harness.schedules.due(1, 2 * ttl)
        assert ([d.name for d in batch.schedules], batch.next_due) == (["now"], moments["soon"])

    async def test_due_time_decides_not_the_nominal_time(self, harness: Harness) -> None:
        """Jitter moves the due time away from the nominal one."""
        now = await harness.now()
        change = adding("a", now)
        later = now + timedelta(seconds=harness.ttl)
        await harness.schedules.change([type(change)(change.spec, now, later)])
        assert (await harness.schedules.due(10)).schedules == []
        await harness.advance(harness.ttl)
        assert [d.next_nominal for d in (await harness.schedules.due(10)).schedules] == [now]

    async def test_oldest_are_due_first_and_the_limit_holds(self, harness: Harness) -> None:
        now = await harness.now()
        moments = {name: now - timedelta(hours=h) for name, h in (("b", 1), ("c", 3), ("a", 2))}
        await harness.schedules.change([adding(name, at) for name, at in moments.items()])
        assert [d.name for d in (await harness.schedules.due(10)).schedules] == ["c", "a", "b"]
        batch = await harness.schedules.due(2)
        assert [d.name for d in batch.schedules] == ["c", "a"]
        assert batch.next_due == moments["b"]

    async def test_tenants_take_turns_when_more_is_due_than_fits(self, harness: Harness) -> None:
        now = await harness.now()
        moments = {f"loud {n}": now - timedelta(hours=9 - n) for n in range(8)}
        moments |= {"quiet": now - timedelta(seconds=2), "nobody": now - timedelta(seconds=1)}
        tenants = {"loud": "loud", "quiet": "quiet", "nobody": None}
        await harness.schedules.change(
            [adding(n, at, tenant=tenants[n.partition(" ")[0]]) for n, at in moments.items()]
        )
        all_of_them = [d.name for d in (await harness.schedules.due(10)).schedules]
        assert all_of_them == list(moments)  # they fit, and the oldest are first
        batch = await harness.schedules.due(6)
        names = [d.name for d in batch.schedules]
        assert set(names[:3]) == {"loud 0", "quiet", "nobody"}
        assert names[3:] == ["loud 1", "loud 2", "loud 3"]
        assert batch.next_due == moments["loud 4"]

    async def test_tenant_with_nothing_due_takes_nobodys_turn(self, harness: Harness) -> None:
        now = await harness.now()
        changes = [
            adding(f"a{n}", now - timedelta(hours=9 - n), tenant=f"{n % 2}") for n in range(6)
        ]
        changes += [adding(f"b{n}", now + timedelta(hours=1), tenant=f"b{n}") for n in range(6)]
        changes += [adding("paused", now, tenant="c", active=False), adding("nobody", None)]
        await harness.schedules.change(changes)
        names = [d.name for d in (await harness.schedules.due(4)).schedules]
        assert set(names[:2]) == {"a0", "a1"}
        assert names[2:] == ["a2", "a3"]

    async def test_more_tenants_than_fit_have_their_turns_one_look_after_the_other(
        self, harness: Harness
    ) -> None:
        now = await harness.now()
        loud = [adding(f"loud {n}", now - timedelta(hours=n), tenant="loud") for n in range(9)]
        await harness.schedules.change(loud)
        quiet: set[str] = set()
        for n in range(7):
            await harness.schedules.change([adding(f"quiet {n}", now, tenant=f"quiet {n}")])
            quiet.add(f"quiet {n}")
            seen: set[str] = set()
            for _ in range(7):  # two rounds: one may have begun
                batch = await harness.schedules.due(3)
                assert len({d.uid for d in batch.schedules}) == 3
                seen |= {d.name for d in batch.schedules}
            assert quiet <= seen

    async def test_those_without_a_tenant_have_no_more_turns_than_others(
        self, harness: Harness
    ) -> None:
        now = await harness.now()
        loud = [adding(f"loud {n}", now - timedelta(hours=n + 1), tenant="loud") for n in range(9)]
        quiet = [adding(f"quiet {n}", now, tenant=f"quiet {n}") for n in range(7)]
        await harness.schedules.change([*loud, *quiet, adding("nobody", now)])
        turns = Counter[str]()
        for _ in range(12):
            turns.update(d.name for d in (await harness.schedules.due(3)).schedules)
        others = [turns[f"quiet {n}"] for n in range(7)]
        assert min(others) > 0
        assert 0 < turns["nobody"] <= max(others) + 1

    async def test_those_without_a_tenant_have_their_turn_in_each_look(
        self, harness: Harness
    ) -> None:
        """Also if there were none in the looks before, and others are due before and after them."""
        now = await harness.now()
        limit = 4
        moments = [now - timedelta(hours=9) + timedelta(seconds=n) for n in range(10 * limit)]
        await harness.schedules.change(
            [adding(f"loud {n}", at, tenant="loud") for n, at in enumerate(moments)]
            + [adding("quiet", now, tenant="quiet")]
        )
        await harness.schedules.due(limit)
        last, within = moments[-1], moments[3 * limit] + timedelta(microseconds=1)
        for name, at in (("last", last + timedelta(seconds=1)), ("within", within)):
            await harness.schedules.change([adding(name, at)])
            for _ in range(9):
                assert name in [d.name for d in (await harness.schedules.due(limit)).schedules]
            assert await harness.schedules.remove(name)
            for _ in range(3):
                await harness.schedules.due(limit)

    async def test_paused_schedule_is_never_due(self, harness: Harness) -> None:
        paused = await harness.add("a", active=False, reason="paused")
        await harness.add("done")
        batch = await harness.schedules.due(10)
        assert [d.name for d in batch.schedules] == ["done"]
        assert batch.next_due is None
        await harness.schedules.change([replacing(paused, active=True, reason=None)])
        assert {d.name for d in (await harness.schedules.due(10)).schedules} == {"a", "done"}

    async def test_schedule_without_a_next_time_is_never_due(self, harness: Harness) -> None:
        await harness.schedules.change([adding("a", None)])
        batch = await harness.schedules.due(10)
        assert (batch.schedules, batch.next_due) == ([], None)

    async def test_time_of_the_store_passes(self, harness: Harness) -> None:
        before = await harness.now()
        await harness.advance(harness.ttl)
        after = await harness.now()
        assert after - before >= timedelta(seconds=harness.ttl)
        assert after.utcoffset() == timedelta(0)

    # -- backlog --------------------------------------------------------------------------------

    async def test_backlog_counts_what_is_to_be_done(self, harness: Harness) -> None:
        empty = await harness.schedules.backlog(SCOPE)
        assert (empty.due, empty.waiting, empty.claimed) == (0, 0, 0)
        assert (empty.next_due, empty.oldest_waiting) == (None, None)
        oldest = await harness.add("due")
        await harness.add("later", due_in=harness.ttl * 50)
        await harness.add("paused", active=False)
        await harness.claimed_run("claimed")
        first = await harness.waiting_run("waiting", "1", overlap=Overlap.ALLOW)
        await harness.waiting_run("waiting", "2")
        backlog = await harness.schedules.backlog(SCOPE)
        assert (backlog.due, backlog.waiting, backlog.claimed) == (1, 2, 1)
        assert backlog.next_due == oldest.next_due
        assert backlog.oldest_waiting == first.due
        assert backlog.now >= first.due

    async def test_backlog_has_the_lock_that_is_held_longest(self, harness: Harness) -> None:
        assert (await harness.schedules.backlog(SCOPE)).oldest_lock is None
        await harness.claimed_run("unlocked", overlap=Overlap.ALLOW)
        await harness.waiting_run("waiting", "1", lock="w")
        assert (await harness.schedules.backlog(SCOPE)).oldest_lock is None
        # Neither the first run nor the first lock key: the first claim.
        late = await harness.waiting_run("late", task="late", lock="a")
        first = await harness.claimed_run("first", lock="m")
        await harness.advance(harness.ttl / 10)
        await harness.claimed_run("last", lock="z")
        [claimed] = (await harness.runs.claim("node", ["late"], 1)).runs
        assert claimed.id == late.id
        assert (await harness.schedules.backlog(SCOPE)).oldest_lock == first.claimed_at
        await harness.finish([Result(first.id, first.claim, "node", RunState.SUCCEEDED)])
        backlog = await harness.schedules.backlog(SCOPE)
        assert backlog.oldest_lock is not None
        assert first.claimed_at is not None
        assert first.claimed_at < backlog.oldest_lock <= backlog.now
