"""Clauses of `LeaseStore`: what is dropped, and that no term comes back by it."""

from __future__ import annotations

from tenure.model import LeaseRecord
from tenure.testing.contract.harness import LeaseHarness, skip_unless

LONG = 1e6


class ForgettingContract:
    """Forget."""

    # -- forget ---------------------------------------------------------------------------------

    async def test_forget_drops_what_is_free_or_expired_and_old(
        self, harness: LeaseHarness
    ) -> None:
        await harness.leases.release(await harness.grant("node/free"))
        await harness.grant("node/expired")
        await harness.advance(harness.ttl * 3)
        await harness.leases.release(await harness.grant("node/fresh"))
        await harness.grant("node/live")
        assert (await harness.leases.forget("node/", harness.ttl * 2)).count == 2
        assert _names(await harness.leases.all()) == ["node/fresh", "node/live"]
        assert await harness.leases.read("node/free") is None

    async def test_free_ones_may_go_sooner_than_those_that_ran_out(
        self, harness: LeaseHarness
    ) -> None:
        """Whoever is late may still renew a lease that nobody took."""
        await harness.leases.release(await harness.grant("free"))
        late = await harness.grant("expired")
        await harness.advance(harness.ttl * 3)
        forgotten = await harness.leases.forget("", harness.ttl * 50, free_after=harness.ttl * 2)
        assert forgotten.count == 1
        assert _names(await harness.leases.all()) == ["expired"]
        assert await harness.leases.renew([late]) == {late}

    async def test_forget_counts_from_the_last_renewal(self, harness: LeaseHarness) -> None:
        grant = await harness.grant("node/a")
        await harness.advance(harness.ttl * 3)
        await harness.leases.renew([grant])
        await harness.leases.release(grant)
        assert (await harness.leases.forget("node/", harness.ttl * 2)).count == 0
        assert _names(await harness.leases.all()) == ["node/a"]

    async def test_ending_it_by_force_renews_nothing(self, harness: LeaseHarness) -> None:
        await harness.grant("job")
        await harness.advance(harness.ttl * 3)
        assert await harness.leases.evict("job", "by the operator") is not None
        forgotten = await harness.leases.forget("", harness.ttl * 50, free_after=harness.ttl * 2)
        assert forgotten.count == 1

    async def test_forget_never_drops_a_live_lease(self, harness: LeaseHarness) -> None:
        grant = await harness.grant("node/long", ttl=harness.ttl * 10)
        await harness.advance(harness.ttl * 2)
        assert (await harness.leases.forget("node/", harness.ttl)).count == 0
        assert await harness.leases.renew([grant]) == {grant}

    async def test_forget_takes_its_prefix_literally(self, harness: LeaseHarness) -> None:
        for name in ("a_1", "ax1", "A_1", "a", "a^", "a`"):
            await harness.leases.release(await harness.grant(name))
        await harness.advance(harness.ttl * 2)
        assert (await harness.leases.forget("a_", harness.ttl)).count == 1
        left = sorted(_names(await harness.leases.all()))
        assert left == ["A_1", "a", "a^", "a`", "ax1"]

    async def test_forget_looks_at_a_part_and_goes_on_from_there(
        self, harness: LeaseHarness
    ) -> None:
        many = 300
        for i in range(many):
            await harness.leases.release(await harness.grant(f"job {i}"))
        # A server's own clock has gone on meanwhile, and ours has not: the last of them must be old
        # by both.
        await harness.advance(harness.ttl * 30)
        counts, after = [], ""
        for _ in range(many):
            part = await harness.leases.forget("", harness.ttl * 2, limit=20, after=after)
            counts.append(part.count)
            after = part.after
            if not after:
                break
        assert sum(counts) == many
        assert max(counts) < many / 2
        assert await harness.leases.all() == []

    async def test_dry_forget_counts_and_changes_nothing(self, harness: LeaseHarness) -> None:
        await harness.leases.release(await harness.grant("free"))
        await harness.grant("expired")
        await harness.advance(harness.ttl * 3)
        before = await harness.leases.all(), await harness.leases.history()
        assert (await harness.leases.forget("", harness.ttl * 2, dry_run=True)).count == 2
        assert (await harness.leases.all(), await harness.leases.history()) == before

    async def test_clock_that_was_set_forward_makes_nothing_old(
        self, harness: LeaseHarness
    ) -> None:
        jump = skip_unless(harness.jump, "the clock of this store cannot be set here")
        await harness.leases.release(await harness.grant("free"))
        await harness.advance(harness.ttl)
        jump(harness.ttl * 1_000)
        try:
            assert (await harness.leases.forget("", harness.ttl * 2)).count == 0
            assert await harness.forget_lines(harness.ttl * 2) == 0
        finally:
            jump(-harness.ttl * 1_000)
        assert _names(await harness.leases.all()) == ["free"]
        assert len(await harness.leases.history()) == 1

    # -- terms ----------------------------------------------------------------------------------

    async def test_forgotten_name_never_gets_a_term_again(self, harness: LeaseHarness) -> None:
        last = await harness.grant("job", "ann", floor=40)
        await harness.leases.release(last)
        await harness.advance(harness.ttl * 3)
        assert (await harness.leases.forget("", harness.ttl * 2)).count == 1
        assert await harness.forget_lines(harness.ttl * 2) == 1
        assert await harness.leases.read("job") is None
        assert await harness.leases.history() == []
        other = await harness.another()
        again = await other.leases.acquire("job", harness.holder("bob"), harness.ttl)
        assert again.term > last.term

    async def test_evicted_and_forgotten_name_never_gets_a_term_again(
        self, harness: LeaseHarness
    ) -> None:
        await harness.grant("job", "ann")
        await harness.leases.evict("job", "by the operator")
        record = await harness.leases.read("job")
        assert record is not None
        await harness.advance(harness.ttl * 3)
        assert (await harness.leases.forget("", harness.ttl * 2)).count == 1
        assert (await harness.grant("job", "bob")).term > record.term

    async def test_every_forgotten_name_is_safe(self, harness: LeaseHarness) -> None:
        """One high-water term protects all of them, whichever is forgotten first."""
        terms = {}
        for i, floor in enumerate((7, 900, 3)):
            grant = await harness.grant(f"job {i}", floor=floor)
            terms[grant.name] = grant.term
            await harness.leases.release(grant)
            await harness.advance(harness.ttl)
        for _ in range(4):
            await harness.leases.forget("", harness.ttl * 1.5)
            await harness.forget_lines(harness.ttl * 1.5)
            await harness.advance(harness.ttl)
        assert await harness.leases.all() == []
        for name, term in terms.items():
            assert (await harness.grant(name)).term > term

    async def test_old_grant_of_a_forgotten_name_is_worth_nothing(
        self, harness: LeaseHarness
    ) -> None:
        old = await harness.grant("job", "ann")
        await harness.advance(harness.ttl * 3)
        await harness.leases.forget("", harness.ttl * 2)
        assert await harness.leases.renew([old]) == set()
        assert not await harness.leases.release(old)
        new = await harness.grant("job", "ann")
        assert await harness.leases.renew([old]) == set()
        assert await harness.leases.renew([new]) == {new}

    async def test_lease_that_was_deleted_by_hand_is_granted_under_a_greater_term(
        self, harness: LeaseHarness
    ) -> None:
        """Somebody cleaned up. The history knows, and no cluster stands still for it."""
        last = await harness.grant("job", "ann", floor=40)
        skip_unless(await harness.delete("job"), "nobody can reach the records of this store")
        assert await harness.leases.read("job") is None
        new = await harness.grant("job", "bob")
        assert new.term > last.term
        assert await harness.leases.renew([last]) == set()
        open_, *_ = await harness.leases.history("job")
        assert (open_.holder, open_.ended_at) == ("bob", None)
        left = [line for line in await harness.leases.history("job") if line.ended_at is None]
        assert len(left) == 1

    # -- history --------------------------------------------------------------------------------

    async def test_history_outlives_its_lease(self, harness: LeaseHarness) -> None:
        grant = await harness.grant("node/left")
        await harness.leases.release(grant, "left")
        await harness.advance(harness.ttl * 3)
        assert (await harness.leases.forget("node/", harness.ttl * 2)).count == 1
        [line] = await harness.leases.history()
        assert (line.name, line.term, line.end) == ("node/left", grant.term, "left")

    async def test_line_that_nobody_ended_says_when_it_ran_out(self, harness: LeaseHarness) -> None:
        """That is how nodes die. Nobody came, so nobody is still there either."""
        grant = await harness.grant("node/dead")
        await harness.advance(harness.ttl * 3)
        assert (await harness.leases.forget("node/", harness.ttl * 2)).count == 1
        [line] = await harness.leases.history()
        assert (line.name, line.term) == ("node/dead", grant.term)
        assert line.end
        assert line.ended_at is not None
        held = (line.ended_at - line.acquired_at).total_seconds()
        assert harness.ttl * 0.9 <= held <= harness.ttl * 1.1

    async def test_forget_history_drops_what_ended_before(self, harness: LeaseHarness) -> None:
        await harness.leases.release(await harness.grant("a"))
        await harness.advance(harness.ttl * 3)
        await harness.leases.release(await harness.grant("b"))
        held = await harness.grant("c")
        assert await harness.forget_lines(harness.ttl * 2) == 1
        assert {line.name for line in await harness.leases.history()} == {"b", "c"}
        await harness.advance(harness.ttl * 3)
        assert await harness.leases.renew([held]) == {held}
        assert await harness.forget_lines(harness.ttl * 2) == 1
        assert [line.name for line in await harness.leases.history()] == ["c"]

    async def test_forget_history_takes_at_most_the_limit(self, harness: LeaseHarness) -> None:
        for i in range(10):
            await harness.leases.release(await harness.grant(f"job {i}"))
        await harness.advance(harness.ttl * 3)
        assert await harness.forget_lines(harness.ttl * 2, dry_run=True) == 10
        counts = [await harness.forget_lines(harness.ttl * 2, limit=4) for _ in range(4)]
        assert counts == [4, 4, 2, 0]
        assert await harness.leases.history() == []

    async def test_users_leases_leave_a_limited_number_of_lines(
        self, harness: LeaseHarness
    ) -> None:
        """However young they are; but what they leave does not push out Tenure's own."""
        await harness.leases.release(await harness.grant("tenure/leader"), "stopped")
        for i in range(10):
            await harness.advance(harness.ttl * 0.01)
            await harness.leases.release(await harness.grant(f"job {i}"))
        held = await harness.grant("held")
        await harness.forget_lines(LONG, keep=4)
        names = [line.name for line in await harness.leases.history()]
        assert {"held", "tenure/leader", "job 9"} <= set(names)
        assert len(names) <= 6
        assert (await harness.grant("job 0")).term > 0
        assert await harness.leases.renew([held]) == {held}

    async def test_line_whose_lease_is_gone_does_not_stay_for_ever(
        self, harness: LeaseHarness
    ) -> None:
        await harness.grant("job", "ann")
        skip_unless(await harness.delete("job"), "nobody can reach the records of this store")
        await harness.advance(harness.ttl * 3)
        await harness.forget_lines(harness.ttl * 2)
        assert await harness.leases.history() == []


def _names(records: list[LeaseRecord]) -> list[str]:
    return [record.name for record in records]
