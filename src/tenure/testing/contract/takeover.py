"""Clauses of `LeaseStore`: when a lease may be taken before, or only after, its ttl."""

from __future__ import annotations

from tenure.model import Grant, LeaseRecord
from tenure.testing.contract.harness import LeaseHarness, skip_unless


class TakeoverContract:
    """Proof of death, and holders whose clock cannot be compared with ours."""

    async def test_lease_of_a_holder_proven_dead_is_granted_at_once(
        self, harness: LeaseHarness
    ) -> None:
        dead = skip_unless(await harness.orphan("job"), "this store has no proof of death")
        record = await harness.leases.read("job")
        assert record is not None
        assert await harness.leases.suspect(record)
        assert (record.holder, record.live) == (dead.holder, False)
        assert (await harness.grant("job", "bob")).term > dead.term

    async def test_grant_says_from_whom_it_was_taken_after_how_long_and_why(
        self, harness: LeaseHarness
    ) -> None:
        past = await harness.grant("job", "ann")
        assert past.takeover is None
        await harness.advance(harness.ttl * 1.5)
        told = (await harness.grant("job", "bob")).takeover
        assert told is not None
        assert (told.holder, told.reason) == ("ann", "expired")
        assert (told.host, told.pid) == (harness.holder("ann").host, harness.holder("ann").pid)
        assert told.silent is not None
        assert told.silent >= harness.ttl * 1.4

    async def test_lease_that_was_free_or_ones_own_is_not_taken_over(
        self, harness: LeaseHarness
    ) -> None:
        grant = await harness.grant("job", "ann")
        again = await harness.grant("job", "ann")
        assert again.takeover is None
        assert grant.term < again.term
        await harness.leases.release(again)
        assert (await harness.grant("job", "bob")).takeover is None
        await harness.leases.evict("job", "by the operator")
        assert (await harness.grant("job", "cat")).takeover is None

    async def test_takeover_from_a_holder_proven_dead_says_so(self, harness: LeaseHarness) -> None:
        dead = skip_unless(await harness.orphan("job"), "this store has no proof of death")
        told = (await harness.grant("job", "bob")).takeover
        assert told is not None
        assert (told.holder, told.reason) == (dead.holder, "holder died")

    async def test_living_holder_is_not_suspected(self, harness: LeaseHarness) -> None:
        await harness.grant("job", "ann", fenced=True)
        other = await harness.another()
        for store in (harness.leases, other.leases):
            record = await store.read("job")
            assert record is not None
            assert not await store.suspect(record)
            assert not await store.suspect(record, 0.2)

    async def test_watched_holder_that_is_proven_dead_is_told_of(
        self, harness: LeaseHarness
    ) -> None:
        skip_unless(await harness.orphan("job"), "this store has no proof of death")
        record = await harness.leases.read("job")
        assert record is not None
        assert await harness.leases.suspect(record, 0.2)

    async def test_watch_changes_nothing(self, harness: LeaseHarness) -> None:
        """A hint that nobody acts on costs nothing; one that is wrong costs an acquire."""
        grant = await harness.grant("job", "ann", fenced=True)
        other = await harness.another()
        before = await other.leases.read("job")
        assert before is not None
        await other.leases.suspect(before, 0.2)
        answer = await other.leases.acquire("job", harness.holder("bob"), harness.ttl, fenced=True)
        assert isinstance(answer, LeaseRecord)
        assert (answer.holder, answer.term, answer.counter) == ("ann", grant.term, before.counter)

    async def test_watched_record_of_the_past_is_no_hint(self, harness: LeaseHarness) -> None:
        """Of a holder that others have followed since."""
        past = await harness.grant("job", "ann", fenced=True)
        record = await harness.leases.read("job")
        assert record is not None
        await harness.leases.release(past)
        await harness.grant("job", "bob", fenced=True)
        await harness.leases.suspect(record, 0.2)
        await harness.refused("job", "cat")

    async def test_lease_of_another_clock_is_taken_after_a_quiet_ttl(
        self, harness: LeaseHarness
    ) -> None:
        """Its counter must be seen unchanged for a full ttl; each renewal starts the wait again."""
        foreign = skip_unless(await harness.foreign(), "this store has one clock for all")
        grant = await foreign.leases.acquire("job", harness.holder("far"), harness.ttl)
        assert isinstance(grant, Grant)
        await harness.advance(harness.ttl * 1.5)
        await harness.refused("job", "bob")  # first sight
        await harness.advance(harness.ttl * 0.7)
        assert await foreign.leases.renew([grant]) == {grant}
        await harness.refused("job", "bob")
        await harness.advance(harness.ttl * 0.7)
        await harness.refused("job", "bob")
        await harness.advance(harness.ttl * 0.4)
        assert (await harness.grant("job", "bob")).term > grant.term

    async def test_quiet_ttl_of_another_clock_is_seen_by_each_for_itself(
        self, harness: LeaseHarness
    ) -> None:
        """Who comes late has seen nothing yet."""
        foreign = skip_unless(await harness.foreign(), "this store has one clock for all")
        await foreign.leases.acquire("job", harness.holder("far"), harness.ttl)
        await harness.refused("job", "bob")
        await harness.advance(harness.ttl * 1.1)
        late = await harness.another()
        answer = await late.leases.acquire("job", harness.holder("cat"), harness.ttl)
        assert isinstance(answer, LeaseRecord)
        await harness.grant("job", "bob")
