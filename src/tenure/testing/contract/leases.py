"""Clauses of `LeaseStore`: who may hold a lease, for how long, under which term."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenure.backends.base import LeaseBackend
from tenure.errors import StoreError
from tenure.model import HIGHEST_TERM, Grant, LeaseRecord
from tenure.testing.contract.harness import LeaseHarness, together, turn


class LeaseContract:
    """Acquire, renew, release."""

    # -- acquire --------------------------------------------------------------------------------

    async def test_free_lease_is_granted(self, harness: LeaseHarness) -> None:
        grant = await harness.grant("job", "ann")
        assert (grant.name, grant.holder, grant.ttl) == ("job", "ann", harness.ttl)
        assert grant.term > 0
        record = await harness.leases.read("job")
        assert record is not None
        assert (record.holder, record.term, record.live) == ("ann", grant.term, True)

    async def test_second_holder_is_refused_and_told_who_holds_it(
        self, harness: LeaseHarness
    ) -> None:
        grant = await harness.grant("job", "ann")
        record = await harness.refused("job", "bob")
        assert (record.name, record.holder, record.term) == ("job", "ann", grant.term)
        assert record.live
        assert await harness.leases.renew([grant]) == {grant}

    async def test_holder_of_another_process_is_refused(self, harness: LeaseHarness) -> None:
        """The lease is in the store, not in the backend object."""
        other = await harness.another()
        await harness.grant("job", "ann")
        answer = await other.leases.acquire("job", harness.holder("bob"), harness.ttl)
        assert isinstance(answer, LeaseRecord)
        assert answer.holder == "ann"

    async def test_of_many_simultaneous_acquires_exactly_one_is_granted(
        self, harness: LeaseHarness
    ) -> None:
        backends = await harness.backends(4)
        for round_ in range(5):
            answers = await together(
                *(
                    backends[i % 4].leases.acquire(
                        f"job {round_}", harness.holder(f"holder {i}"), harness.ttl
                    )
                    for i in range(12)
                )
            )
            winners = [answer for answer in answers if isinstance(answer, Grant)]
            losers = [answer for answer in answers if isinstance(answer, LeaseRecord)]
            assert len(winners) == 1
            assert len(losers) == 11
            assert {loser.holder for loser in losers} == {winners[0].holder}

    async def test_of_many_who_take_over_exactly_one_is_granted(
        self, harness: LeaseHarness
    ) -> None:
        """The same when there is a row already, and it has expired."""
        backends = await harness.backends(4)
        first = await harness.grant("job", "ann")
        await harness.advance(harness.ttl * 1.1)
        answers = await together(
            *(
                backends[i % 4].leases.acquire("job", harness.holder(f"holder {i}"), harness.ttl)
                for i in range(12)
            )
        )
        terms = [answer.term for answer in answers if isinstance(answer, Grant)]
        assert len(terms) == 1
        assert terms[0] > first.term
        assert all(isinstance(answer, Grant | LeaseRecord) for answer in answers)

    async def test_leases_of_different_names_are_independent(self, harness: LeaseHarness) -> None:
        first, second = await harness.grant("one", "ann"), await harness.grant("two", "bob")
        assert await harness.leases.release(first)
        assert await harness.leases.renew([second]) == {second}

    async def test_lease_is_refused_until_its_ttl_has_passed(self, harness: LeaseHarness) -> None:
        await harness.grant("job", "ann")
        await harness.advance(harness.ttl * 0.5)
        await harness.refused("job", "bob")
        await harness.advance(harness.ttl * 0.6)
        await harness.grant("job", "bob")

    async def test_each_lease_has_the_ttl_it_was_given(self, harness: LeaseHarness) -> None:
        await harness.grant("short", "ann")
        await harness.grant("long", "ann", ttl=harness.ttl * 4)
        await harness.advance(harness.ttl * 1.5)
        await harness.grant("short", "bob")
        await harness.refused("long", "bob")

    # -- terms ----------------------------------------------------------------------------------

    async def test_term_grows_across_release(self, harness: LeaseHarness) -> None:
        first = await harness.grant("job", "ann")
        assert await harness.leases.release(first)
        second = await harness.grant("job", "ann")
        assert second.term > first.term

    async def test_term_grows_across_expiry(self, harness: LeaseHarness) -> None:
        first = await harness.grant("job", "ann")
        await harness.advance(harness.ttl * 1.1)
        assert (await harness.grant("job", "bob")).term > first.term

    async def test_term_grows_across_evict(self, harness: LeaseHarness) -> None:
        first = await harness.grant("job", "ann")
        await harness.leases.evict("job", "by the operator")
        freed = await harness.leases.read("job")
        assert freed is not None
        assert freed.term > first.term
        assert (await harness.grant("job", "bob")).term > freed.term

    async def test_term_is_greater_than_floor(self, harness: LeaseHarness) -> None:
        assert (await harness.grant("job", "ann", floor=41)).term > 41
        assert (await harness.grant("job", "ann", floor=1_000_000)).term > 1_000_000

    @pytest.mark.parametrize("floor", [10**9, 10**13, 10**14, HIGHEST_TERM - 10])
    async def test_what_is_granted_above_a_floor_stays_below_what_follows(
        self, harness: LeaseHarness, floor: int
    ) -> None:
        """A store may refuse a floor that is too high for it, and then changes nothing."""
        try:
            high = await harness.grant("job", "ann", floor=floor)
        except StoreError:
            assert await harness.leases.read("job") is None
            high = await harness.grant("job", "ann")
            assert high.term < floor
        else:
            assert high.term > floor
        await harness.leases.release(high)
        if harness.jump is not None:
            harness.jump(-3600.0)
        assert (await harness.grant("job", "bob", fenced=True)).term > high.term

    async def test_low_floor_does_not_lower_the_term(self, harness: LeaseHarness) -> None:
        first = await harness.grant("job", "ann", floor=41)
        await harness.leases.release(first)
        assert (await harness.grant("job", "bob", floor=3)).term > first.term

    async def test_same_holder_asking_again_gets_new_term_and_ends_the_old_grant(
        self, harness: LeaseHarness
    ) -> None:
        """A grant whose reply was lost blocks nobody, not even who asked for it."""
        lost = await harness.grant("job", "ann")
        again = await harness.grant("job", "ann")
        assert again.term > lost.term
        assert await harness.leases.renew([lost, again]) == {again}
        assert not await harness.leases.release(lost)
        await harness.refused("job", "bob")

    # -- renew ----------------------------------------------------------------------------------

    async def test_renewal_prolongs_by_the_ttl_from_now(self, harness: LeaseHarness) -> None:
        grant = await harness.grant("job", "ann")
        await harness.advance(harness.ttl * 0.7)
        assert await harness.leases.renew([grant]) == {grant}
        await harness.advance(harness.ttl * 0.7)
        await harness.refused("job", "bob")
        await harness.advance(harness.ttl * 0.4)
        await harness.grant("job", "bob")

    async def test_renewal_bumps_the_counter_and_keeps_the_term(
        self, harness: LeaseHarness
    ) -> None:
        grant = await harness.grant("job", "ann")
        before = await harness.leases.read("job")
        await harness.leases.renew([grant])
        after = await harness.leases.read("job")
        assert before is not None
        assert after is not None
        assert after.counter > before.counter
        assert after.term == before.term == grant.term

    async def test_all_grants_are_renewed_together(self, harness: LeaseHarness) -> None:
        kept = [await harness.grant(f"job {i}", "ann") for i in range(20)]
        gone = await harness.grant("gone", "ann")
        await harness.leases.release(gone)
        await harness.advance(harness.ttl * 0.7)
        assert await harness.leases.renew([*kept, gone]) == set(kept)
        await harness.advance(harness.ttl * 0.7)
        assert all([(await harness.refused(grant.name)).live for grant in kept])

    async def test_renewing_nothing_renews_nothing(self, harness: LeaseHarness) -> None:
        assert await harness.leases.renew([]) == set()

    async def test_grant_of_an_unknown_name_is_not_renewed(self, harness: LeaseHarness) -> None:
        assert await harness.leases.renew([Grant("never", "ann", 1, harness.ttl)]) == set()
        assert await harness.leases.read("never") is None

    async def test_expired_but_untaken_lease_can_be_renewed(self, harness: LeaseHarness) -> None:
        """As long as nobody else took the lease, the late holder keeps it."""
        grant = await harness.grant("job", "ann")
        await harness.advance(harness.ttl * 3)
        assert await harness.leases.renew([grant]) == {grant}
        assert (await harness.refused("job", "bob")).term == grant.term

    async def test_released_lease_cannot_be_renewed(self, harness: LeaseHarness) -> None:
        grant = await harness.grant("job", "ann")
        await harness.leases.release(grant)
        assert await harness.leases.renew([grant]) == set()
        await harness.grant("job", "bob")

    async def test_old_term_cannot_renew_new_term(self, harness: LeaseHarness) -> None:
        old = await harness.grant("job", "ann")
        await harness.advance(harness.ttl * 1.1)
        new = await harness.grant("job", "bob")
        assert await harness.leases.renew([old]) == set()
        await harness.advance(harness.ttl * 1.1)
        assert (await harness.grant("job", "cat")).term > new.term

    async def test_holder_that_is_not_the_stored_one_cannot_renew(
        self, harness: LeaseHarness
    ) -> None:
        """Neither the term alone nor the holder alone is enough."""
        grant = await harness.grant("job", "ann")
        assert await harness.leases.renew([replace(grant, holder="bob")]) == set()
        assert await harness.leases.renew([replace(grant, term=grant.term + 1)]) == set()
        assert await harness.leases.renew([replace(grant, term=grant.term - 1)]) == set()

    # -- release --------------------------------------------------------------------------------

    async def test_release_ends_the_lease_at_once_and_keeps_its_term(
        self, harness: LeaseHarness
    ) -> None:
        grant = await harness.grant("job", "ann")
        assert await harness.leases.release(grant)
        record = await harness.leases.read("job")
        assert record is not None
        assert (record.holder, record.live, record.term) == (None, False, grant.term)
        await harness.grant("job", "bob")

    async def test_lease_is_released_once(self, harness: LeaseHarness) -> None:
        grant = await harness.grant("job", "ann")
        assert await harness.leases.release(grant)
        assert not await harness.leases.release(grant)

    async def test_expired_but_untaken_lease_can_be_released(self, harness: LeaseHarness) -> None:
        grant = await harness.grant("job", "ann")
        await harness.advance(harness.ttl * 1.1)
        assert await harness.leases.release(grant)
        assert (await harness.leases.history("job"))[0].end == "released"

    async def test_old_term_cannot_release_new_term(self, harness: LeaseHarness) -> None:
        old = await harness.grant("job", "ann")
        await harness.advance(harness.ttl * 1.1)
        new = await harness.grant("job", "bob")
        assert not await harness.leases.release(old)
        assert (await harness.refused("job", "cat")).term == new.term

    async def test_holder_that_is_not_the_stored_one_cannot_release(
        self, harness: LeaseHarness
    ) -> None:
        grant = await harness.grant("job", "ann")
        assert not await harness.leases.release(replace(grant, holder="bob"))
        assert not await harness.leases.release(replace(grant, term=grant.term + 1))
        assert (await harness.refused("job", "bob")).holder == "ann"

    # -- fuzz -----------------------------------------------------------------------------------

    async def test_no_increment_is_lost_under_a_lease(self, harness: LeaseHarness) -> None:
        """Workers add to a counter that only the lease protects: any hole loses an increment."""
        backends, rounds, counter = await harness.backends(4), 12, [0]

        async def work(number: int, backend: LeaseBackend) -> None:
            holder = harness.holder(f"worker {number}")
            for _ in range(rounds):
                answer = await backend.leases.acquire("counter", holder, harness.ttl * 100)
                while not isinstance(answer, Grant):
                    await turn()
                    answer = await backend.leases.acquire("counter", holder, harness.ttl * 100)
                value = counter[0]
                for _ in range(number % 3 + 1):
                    await turn()
                    await backend.leases.renew([answer])
                counter[0] = value + 1
                assert await backend.leases.release(answer)

        failures = await together(*(work(i, backends[i % 4]) for i in range(8)))
        assert failures == [None] * 8
        assert counter[0] == 8 * rounds
