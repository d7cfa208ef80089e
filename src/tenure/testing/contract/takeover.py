"""Clauses of `LeaseStore`: when a lease may be taken before, or only after, its ttl."""

from __future__ import annotations

from tenure.model import Grant, LeaseRecord
from tenure.testing.contract.harness import Harness, skip_unless


class TakeoverContract:
    """Proof of death, and holders whose clock cannot be compared with ours."""

    async def test_lease_of_a_holder_proven_dead_is_granted_at_once(self, harness: Harness) -> None:
        dead = skip_unless(await harness.orphan("job"), "this store has no proof of death")
        record = await harness.leases.read("job")
        assert record is not None
        assert await harness.leases.suspect(record)
        assert (record.holder, record.live) == (dead.holder, False)
        assert (await harness.grant("job", "bob")).term > dead.term

    async def test_living_holder_is_not_suspected(self, harness: Harness) -> None:
        await harness.grant("job", "ann", fenced=True)
        other = await harness.another()
        for store in (harness.leases, other.leases):
            record = await store.read("job")
            assert record is not None
            assert not await store.suspect(record)

    async def test_lease_of_another_clock_is_taken_after_a_quiet_ttl(
        self, harness: Harness
    ) -> None:
        """Its counter must be seen unchanged for a full ttl; each renewal begins that anew."""
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
        self, harness: Harness
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
