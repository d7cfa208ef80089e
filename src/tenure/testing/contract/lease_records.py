"""Clauses of `LeaseStore`: what is on record, and the operator's tools."""

from __future__ import annotations

from tenure.model import LeaseRecord
from tenure.testing.contract.harness import LeaseHarness


class LeaseRecordContract:
    """Read, list, history, evict."""

    # -- read -----------------------------------------------------------------------------------

    async def test_lease_that_was_never_held_is_not_on_record(self, harness: LeaseHarness) -> None:
        assert await harness.leases.read("never") is None
        assert await harness.leases.all() == []
        assert await harness.leases.history() == []

    async def test_record_says_who_holds_it_and_how(self, harness: LeaseHarness) -> None:
        before = await harness.backend.now()
        holder = harness.holder("ann")
        grant = await harness.grant("job", holder, fenced=True, info={"app": "shop", "n": [1]})
        other = await harness.another()
        record = await other.leases.read("job")
        assert record is not None
        assert (record.name, record.term, record.holder) == ("job", grant.term, "ann")
        assert (record.host, record.pid) == (holder.host, holder.pid)
        assert (record.ttl, record.fenced, record.live) == (harness.ttl, True, True)
        assert record.info == {"app": "shop", "n": [1]}
        assert record.acquired_at is not None
        assert record.renewed_at is not None
        assert record.expires_at is not None
        assert before <= record.acquired_at <= record.renewed_at < record.expires_at

    async def test_times_are_told_by_the_clock_of_the_store(self, harness: LeaseHarness) -> None:
        before = await harness.backend.now()
        assert before.tzinfo is not None
        await harness.grant("job", "ann")
        other = await harness.another()
        record = await other.leases.read("job")
        assert record is not None
        assert record.acquired_at is not None
        assert record.expires_at is not None
        assert before <= record.acquired_at <= await other.now() < record.expires_at
        await harness.advance(harness.ttl * 1.1)
        assert await harness.backend.now() > record.expires_at

    async def test_expired_lease_is_not_live_but_still_has_its_holder(
        self, harness: LeaseHarness
    ) -> None:
        await harness.grant("job", "ann")
        await harness.advance(harness.ttl * 1.1)
        record = await harness.leases.read("job")
        assert record is not None
        assert (record.holder, record.live) == ("ann", False)

    async def test_new_holder_brings_its_own_info(self, harness: LeaseHarness) -> None:
        await harness.leases.release(await harness.grant("job", "ann", fenced=True, info={"a": 1}))
        await harness.grant("job", "bob", info={"b": 2})
        record = await harness.leases.read("job")
        assert record is not None
        assert (record.info, record.fenced) == ({"b": 2}, False)

    async def test_holder_describes_itself_anew(self, harness: LeaseHarness) -> None:
        """It is no renewal: neither counter nor expiry moves."""
        grant = await harness.grant("job", "ann", info={"a": 1})
        other = await harness.another()
        before = await other.leases.read("job")
        assert before is not None
        assert await harness.leases.describe(grant, {"b": [2], "ö": None})
        after = await other.leases.read("job")
        assert after is not None
        assert after.info == {"b": [2], "ö": None}
        assert (after.counter, after.renewed_at) == (before.counter, before.renewed_at)
        assert await harness.leases.renew([grant]) == {grant}
        renewed = await other.leases.read("job")
        assert renewed is not None
        assert renewed.info == {"b": [2], "ö": None}

    async def test_former_holder_describes_nothing(self, harness: LeaseHarness) -> None:
        past = await harness.grant("job", "ann", info={"a": 1})
        again = await harness.grant("job", "ann", info={"a": 2})
        assert not await harness.leases.describe(past, {"a": 3})
        await harness.leases.release(again)
        assert not await harness.leases.describe(again, {"a": 3})
        await harness.grant("job", "bob", info={"b": 1})
        assert not await harness.leases.describe(again, {"a": 3})
        record = await harness.leases.read("job")
        assert record is not None
        assert record.info == {"b": 1}

    async def test_leases_are_listed_by_name(self, harness: LeaseHarness) -> None:
        for name in ("b", "c", "a"):
            await harness.grant(name)
        assert _names(await harness.leases.all()) == ["a", "b", "c"]

    async def test_leases_are_listed_in_portions(self, harness: LeaseHarness) -> None:
        for name in ("b/1", "b/3", "c", "a", "b/2"):
            await harness.grant(name)
        assert _names(await harness.leases.all(limit=2)) == ["a", "b/1"]
        assert _names(await harness.leases.all(after="b/1", limit=2)) == ["b/2", "b/3"]
        assert _names(await harness.leases.all("b/", after="b/1", limit=9)) == ["b/2", "b/3"]
        assert _names(await harness.leases.all(after="c")) == []

    async def test_prefix_is_taken_literally(self, harness: LeaseHarness) -> None:
        """No character of a prefix is a wildcard, and case counts."""
        for name in ("a_1", "a_2", "ax1", "A_1", "a%1", "b"):
            await harness.grant(name)
        assert _names(await harness.leases.all("a_")) == ["a_1", "a_2"]
        assert _names(await harness.leases.all("a%")) == ["a%1"]
        assert _names(await harness.leases.all("b")) == ["b"]
        assert _names(await harness.leases.all("c")) == []

    # -- history --------------------------------------------------------------------------------

    async def test_history_says_who_held_it_and_why_it_ended(self, harness: LeaseHarness) -> None:
        holder = harness.holder("ann")
        grant = await harness.grant("job", holder)
        [line] = await harness.leases.history("job")
        assert (line.name, line.term, line.holder) == ("job", grant.term, "ann")
        assert (line.host, line.pid) == (holder.host, holder.pid)
        assert (line.ended_at, line.end) == (None, None)
        await harness.advance(harness.ttl * 0.5)
        await harness.leases.release(grant, "handed over")
        [line] = await harness.leases.history("job")
        assert line.end == "handed over"
        assert line.ended_at is not None
        assert line.ended_at > line.acquired_at

    async def test_lease_of_a_silent_holder_ended_when_it_expired(
        self, harness: LeaseHarness
    ) -> None:
        """And not when the next one came, perhaps hours later: nobody had it in between."""
        await harness.grant("job", "ann", fenced=True)
        await harness.advance(harness.ttl * 3)
        await harness.grant("job", "bob", fenced=True)
        _, line = await harness.leases.history("job")
        assert line.ended_at is not None
        held = (line.ended_at - line.acquired_at).total_seconds()
        assert harness.ttl * 0.9 <= held <= harness.ttl * 1.1

    async def test_history_is_newest_first_with_every_way_to_end(
        self, harness: LeaseHarness
    ) -> None:
        ann = await harness.grant("job", "ann")
        await harness.leases.release(ann)
        await harness.grant("job", "bob")
        await harness.grant("job", "bob")  # asks again
        await harness.advance(harness.ttl * 1.1)
        await harness.grant("job", "cat")  # after it expired
        await harness.leases.evict("job", "by the operator")
        await harness.grant("job", "dan")
        lines = await harness.leases.history("job")
        assert [line.holder for line in lines] == ["dan", "cat", "bob", "bob", "ann"]
        assert [line.term for line in lines] == sorted((x.term for x in lines), reverse=True)
        assert [line.ended_at is None for line in lines] == [True] + [False] * 4
        assert (lines[1].end, lines[4].end) == ("by the operator", "released")
        assert all(line.end for line in lines[1:])
        assert len({lines[1].end, lines[2].end, lines[3].end, lines[4].end}) == 4

    async def test_history_is_per_name_and_limited(self, harness: LeaseHarness) -> None:
        for i in range(3):
            await harness.leases.release(await harness.grant("one", f"holder {i}"))
        await harness.advance(harness.ttl * 0.1)
        await harness.grant("two", "bob")
        assert [line.name for line in await harness.leases.history("one", limit=2)] == ["one"] * 2
        assert (await harness.leases.history("one", limit=2))[0].holder == "holder 2"
        assert len(await harness.leases.history()) == 4
        assert (await harness.leases.history())[0].name == "two"

    async def test_refusals_and_renewals_are_no_history(self, harness: LeaseHarness) -> None:
        grant = await harness.grant("job", "ann")
        await harness.refused("job", "bob")
        await harness.leases.renew([grant])
        assert len(await harness.leases.history("job")) == 1

    # -- evict ----------------------------------------------------------------------------------

    async def test_evict_ends_the_lease_and_returns_it_as_it_was(
        self, harness: LeaseHarness
    ) -> None:
        grant = await harness.grant("job", "ann")
        other = await harness.another()
        before = await other.leases.evict("job", "by the operator")
        assert before is not None
        assert (before.holder, before.term, before.live) == ("ann", grant.term, True)
        after = await harness.leases.read("job")
        assert after is not None
        assert (after.holder, after.live) == (None, False)
        await harness.grant("job", "bob")

    async def test_evicted_holder_can_neither_renew_nor_release(
        self, harness: LeaseHarness
    ) -> None:
        grant = await harness.grant("job", "ann")
        await harness.leases.evict("job", "by the operator")
        assert await harness.leases.renew([grant]) == set()
        assert not await harness.leases.release(grant)

    async def test_evict_of_a_term_ends_no_other(self, harness: LeaseHarness) -> None:
        seen = await harness.grant("job", "ann")
        await harness.leases.release(seen)
        later = await harness.grant("job", "bob")
        assert await harness.leases.evict("job", "by the operator", seen.term) is None
        assert await harness.leases.renew([later]) == {later}
        before = await harness.leases.evict("job", "by the operator", later.term)
        assert before is not None
        assert (before.holder, before.term) == ("bob", later.term)
        assert await harness.leases.renew([later]) == set()

    async def test_evict_of_a_lease_that_nobody_holds_changes_nothing(
        self, harness: LeaseHarness
    ) -> None:
        assert await harness.leases.evict("never", "why not") is None
        assert await harness.leases.read("never") is None
        grant = await harness.grant("job", "ann")
        await harness.leases.release(grant)
        assert await harness.leases.evict("job", "why not") is None
        assert await harness.leases.evict("job", "why not", grant.term) is None
        assert [line.end for line in await harness.leases.history("job")] == ["released"]


def _names(records: list[LeaseRecord]) -> list[str]:
    return [record.name for record in records]
