"""Records that somebody edited: judged on the safe side, taken in bounded time, ended by force."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.errors import StoreError
from tenure.model import HIGHEST_TERM, LONGEST_TTL, UNKNOWN_TTL, Grant, LeaseRecord
from tenure.testing.contract.harness import LeaseHarness, skip_unless

TOP = 2**63 - 1
ANY = ("term", "ttl", "counter", "expiry", "info")
FEW = 1_000_000
"""How far a term grows within a clause, at the most: it may follow a clock in milliseconds."""


async def spoiled(harness: LeaseHarness, name: str, **values: Any) -> None:
    done = await harness.spoil(name, **values)
    skip_unless(done, "nobody can edit the records of this store, or the harness does not")


async def _is_refused(harness: LeaseHarness, floor: int) -> bool:
    """Does the store never grant a term above this one?"""
    try:
        await harness.grant("top", floor=floor)
    except StoreError:
        return True
    return False


class DamageContract:
    """What somebody has put into a record of a lease harms that lease, and nobody else."""

    async def test_what_cannot_be_read_is_named_and_the_others_are_seen(
        self, harness: LeaseHarness
    ) -> None:
        await harness.grant("bad", info={"app": "shop"})
        await harness.grant("good", "bob", info={"app": "shop"})
        await spoiled(harness, "bad", info="{")
        bad, good = await harness.leases.all()
        assert (bad.name, bad.holder, bad.info, bad.live) == ("bad", "ann", {}, True)
        assert "info='{'" in (bad.unreadable or "")
        assert (good.info, good.unreadable) == ({"app": "shop"}, None)
        assert await harness.leases.read("bad") == bad

    async def test_a_holder_that_lives_keeps_it_and_mends_it(self, harness: LeaseHarness) -> None:
        mine = await harness.grant("x")
        other = await harness.another()
        for column, value in (("ttl", 1e300), ("counter", TOP), ("expiry", None), ("info", "{")):
            await spoiled(harness, "x", **{column: value})
            for _ in range(3):
                answer = await other.leases.acquire("x", harness.holder("bob"), harness.ttl)
                assert isinstance(answer, LeaseRecord), (column, answer)
                assert await harness.leases.renew([mine]) == {mine}
                await harness.advance(harness.ttl * 0.6)
            found = await harness.leases.read("x")
            assert found is not None
            assert found.ttl == mine.ttl
            assert found.live
            assert column == "info" or found.unreadable is None, found.unreadable

    async def test_each_renewal_changes_the_counter_whatever_it_is(
        self, harness: LeaseHarness
    ) -> None:
        mine = await harness.grant("x")
        for value in (TOP, TOP - 1, HIGHEST_TERM, -5):
            await spoiled(harness, "x", counter=value)
            seen = set()
            for _ in range(3):
                assert await harness.leases.renew([mine]) == {mine}
                record = await harness.leases.read("x")
                assert record is not None
                seen.add(record.counter)
            assert len(seen) == 3

    async def test_a_bad_ttl_does_not_keep_others_from_renewing(
        self, harness: LeaseHarness
    ) -> None:
        mine, bad = await harness.grant("x"), await harness.grant("bad")
        for value in (1e300, -1.0, 0.0, float("inf")):
            await spoiled(harness, "bad", ttl=value)
            assert await harness.leases.renew([mine, bad]) == {mine, bad}

    async def test_the_expiry_decides_if_the_ttl_cannot_be_read(
        self, harness: LeaseHarness
    ) -> None:
        mine = await harness.grant("x")
        await spoiled(harness, "x", ttl=1e300)
        assert (await harness.refused("x")).ttl <= LONGEST_TTL
        await harness.advance(harness.ttl * 1.1)
        taken = await harness.leases.acquire("x", harness.holder("bob"), harness.ttl)
        assert isinstance(taken, Grant)
        assert taken.term > mine.term

    async def test_the_ttl_of_whoever_asks_does_not_matter(self, harness: LeaseHarness) -> None:
        mine = await harness.grant("x", ttl=3600.0)
        other, bob = (await harness.another()).leases, harness.holder("bob")
        for columns in (["ttl"], ["ttl", "expiry"]):
            await spoiled(harness, "x", **dict.fromkeys(columns, 1e300))
            for _ in range(3):
                answer = await other.acquire("x", bob, 2.0)
                assert isinstance(answer, LeaseRecord), (columns, answer)
                await harness.advance(10.0)
            assert await harness.leases.renew([mine]) == {mine}

    async def test_without_an_expiry_it_is_watched_for_a_ttl(self, harness: LeaseHarness) -> None:
        mine = await harness.grant("x")
        await spoiled(harness, "x", expiry=None)
        await harness.advance(harness.ttl * 1.1)
        assert (await harness.refused("x")).live  # the first look at it
        await harness.advance(harness.ttl * 1.1)
        taken = await harness.leases.acquire("x", harness.holder("bob"), harness.ttl)
        assert isinstance(taken, Grant)
        assert taken.term > mine.term

    async def test_a_record_without_a_ttl_and_an_expiry_does_not_hold_for_ever(
        self, harness: LeaseHarness
    ) -> None:
        """A leader's writes are fenced: it can be replaced soon. Others get all the time that a
        lease may have."""
        for name, fenced in (("office", True), ("lock", False)):
            await harness.grant(name, fenced=fenced)
            await spoiled(harness, name, ttl=1e300, expiry=1e300)
            assert (await harness.refused(name)).ttl == (UNKNOWN_TTL if fenced else LONGEST_TTL)
        await harness.advance(UNKNOWN_TTL * 0.9)
        await harness.refused("office")
        await harness.advance(UNKNOWN_TTL * 0.2)
        await harness.grant("office", "bob")
        await harness.refused("lock")
        await harness.advance(LONGEST_TTL)
        await harness.grant("lock", "bob")

    async def test_what_was_never_a_term_is_none(self, harness: LeaseHarness) -> None:
        """The next is above all that were granted, and not above what somebody put there."""
        for value in (TOP, TOP - 1, HIGHEST_TERM + 1, -7):
            mine = await harness.grant("x")
            await spoiled(harness, "x", term=value)
            assert await harness.leases.renew([mine]) == set()
            await harness.advance(harness.ttl * 1.1)
            taken = await harness.grant("x", "bob")
            assert mine.term < taken.term < mine.term + FEW
            assert await harness.leases.release(taken)

    async def test_after_the_highest_term_there_is_none(self, harness: LeaseHarness) -> None:
        """If the store never grants so high a term, this one is none."""
        mine = await harness.grant("x")
        await spoiled(harness, "x", term=HIGHEST_TERM)
        await harness.advance(harness.ttl * 1.1)
        if await _is_refused(harness, HIGHEST_TERM - 1):
            assert mine.term < (await harness.grant("x", "bob")).term < mine.term + FEW
            return
        for _ in range(2):
            with pytest.raises(StoreError, match="cannot be granted: its term is 9007199254740991"):
                await harness.leases.acquire("x", harness.holder("bob"), harness.ttl)
            await harness.leases.evict("x", "by hand")  # which is possible, and does not help
        await harness.grant("y")

    async def test_any_record_can_be_ended_by_force(self, harness: LeaseHarness) -> None:
        last = 0
        for value in (TOP, -TOP, 0):
            for columns in (*([name] for name in ANY), ANY):
                mine = await harness.grant("x")
                assert mine.term > last
                last = mine.term
                await spoiled(harness, "x", **dict.fromkeys(columns, value))
                evicted = await harness.leases.evict("x", "by hand")
                assert evicted is not None
                assert evicted.holder == "ann"
                assert await harness.leases.renew([mine]) == set()
                found = await harness.leases.read("x")
                assert found is not None
                assert (found.holder, found.unreadable) == (None, None)
                assert mine.term < found.term < mine.term + FEW
                assert (await harness.leases.history("x", limit=1))[0].end == "by hand"
