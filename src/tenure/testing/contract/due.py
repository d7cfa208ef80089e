"""Clauses of `ScheduleStore`: the store's clock, what is due, and how much is to be done."""

from __future__ import annotations

from datetime import timedelta

from tenure.model import Overlap
from tenure.testing.contract.harness import Harness, adding, replacing


class DueContract:
    """Now, due, backlog."""

    async def test_schedule_is_due_when_its_time_has_come(self, harness: Harness) -> None:
        added = await harness.add("a", due_in=harness.ttl, overlap=Overlap.QUEUE)
        before = await harness.schedules.due(10)
        assert (before.schedules, before.next_due) == ([], added.next_due)
        await harness.advance(harness.ttl)
        batch = await harness.schedules.due(10)
        [due] = batch.schedules
        assert (due.uid, due.name, due.version) == (added.uid, "a", added.version)
        assert (due.next_nominal, due.next_due) == (added.next_nominal, added.next_due)
        assert (due.trigger, due.overlap) == (added.spec.trigger, "queue")
        assert (due.catch_up, due.lock) == ("latest", added.spec.lock)
        assert batch.next_due is None
        assert batch.now >= due.next_due

    async def test_what_is_due_soon_can_be_seen_ahead(self, harness: Harness) -> None:
        now, ttl = await harness.schedules.now(), harness.ttl
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
        now = await harness.schedules.now()
        change = adding("a", now)
        later = now + timedelta(seconds=harness.ttl)
        await harness.schedules.change([type(change)(change.spec, now, later)])
        assert (await harness.schedules.due(10)).schedules == []
        await harness.advance(harness.ttl)
        assert [d.next_nominal for d in (await harness.schedules.due(10)).schedules] == [now]

    async def test_oldest_are_due_first_and_the_limit_holds(self, harness: Harness) -> None:
        now = await harness.schedules.now()
        moments = {name: now - timedelta(hours=h) for name, h in (("b", 1), ("c", 3), ("a", 2))}
        await harness.schedules.change([adding(name, at) for name, at in moments.items()])
        assert [d.name for d in (await harness.schedules.due(10)).schedules] == ["c", "a", "b"]
        batch = await harness.schedules.due(2)
        assert [d.name for d in batch.schedules] == ["c", "a"]
        assert batch.next_due == moments["b"]

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
        before = await harness.schedules.now()
        await harness.advance(harness.ttl)
        after = await harness.schedules.now()
        assert after - before >= timedelta(seconds=harness.ttl)
        assert after.utcoffset() == timedelta(0)

    # -- backlog --------------------------------------------------------------------------------

    async def test_backlog_counts_what_is_to_be_done(self, harness: Harness) -> None:
        empty = await harness.schedules.backlog()
        assert (empty.due, empty.waiting, empty.claimed) == (0, 0, 0)
        assert (empty.next_due, empty.oldest_waiting) == (None, None)
        oldest = await harness.add("due")
        await harness.add("later", due_in=harness.ttl * 50)
        await harness.add("paused", active=False)
        await harness.claimed_run("claimed")
        first = await harness.waiting_run("waiting", "1", overlap=Overlap.ALLOW)
        await harness.waiting_run("waiting", "2")
        backlog = await harness.schedules.backlog()
        assert (backlog.due, backlog.waiting, backlog.claimed) == (1, 2, 1)
        assert backlog.next_due == oldest.next_due
        assert backlog.oldest_waiting == first.due
        assert backlog.now >= first.due
