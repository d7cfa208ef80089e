"""Clauses of `ReleaseStore`: what apps announce, in which order, and what is forgotten."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tenure.errors import Fenced
from tenure.model import Fence, Release
from tenure.testing.contract.harness import SCOPE, Harness, replacing, together

OLD, NEW = Release("old", {"a": "1", "b": "1"}), Release("new", {"a": "2", "ü": "1"})


class ReleaseContract:
    """Announce, declared, prune."""

    async def test_release_is_stored_as_it_was_announced(self, harness: Harness) -> None:
        before = await harness.schedules.now()
        await harness.releases.announce("shop", NEW)
        other = await harness.another()
        declared = await other.releases.declared("shop")
        [stored] = declared.releases
        assert (stored.digest, stored.definitions) == (NEW.digest, NEW.definitions)
        assert stored.announced_at is not None
        assert before <= stored.announced_at <= declared.now

    async def test_releases_are_numbered_in_the_order_of_their_first_announcement(
        self, harness: Harness
    ) -> None:
        for release in (OLD, NEW, OLD, NEW, OLD):
            await harness.releases.announce("shop", release)
        old, new = (await harness.releases.declared("shop")).releases
        assert (old.digest, new.digest) == ("old", "new")
        assert old.number < new.number

    async def test_announcing_again_keeps_the_number_and_notes_the_time(
        self, harness: Harness
    ) -> None:
        await harness.releases.announce("shop", OLD)
        [first] = (await harness.releases.declared("shop")).releases
        await harness.advance(harness.ttl)
        await harness.releases.announce("shop", OLD)
        [again] = (await harness.releases.declared("shop")).releases
        assert again.number == first.number
        assert again.announced_at is not None
        assert first.announced_at is not None
        assert again.announced_at - first.announced_at >= timedelta(seconds=harness.ttl)

    async def test_of_many_simultaneous_announcements_there_is_one_release(
        self, harness: Harness
    ) -> None:
        backends = await harness.backends(4)
        answers = await together(
            *(backends[i % 4].releases.announce("shop", (OLD, NEW)[i % 2]) for i in range(16))
        )
        assert answers == [None] * 16
        found = (await harness.releases.declared("shop")).releases
        assert sorted(release.digest for release in found) == ["new", "old"]
        assert found[0].number < found[1].number

    async def test_apps_have_schedules_and_releases_of_their_own(self, harness: Harness) -> None:
        await harness.releases.announce("shop", OLD)
        await harness.releases.announce("bank", OLD)
        await harness.releases.announce("bank", NEW)
        mine = [await harness.add("b", app="shop"), await harness.add("a", app="shop")]
        await harness.add("c", app="bank")
        await harness.add("d")
        declared = await harness.releases.declared("shop")
        assert declared.schedules == mine[::-1]
        assert [release.digest for release in declared.releases] == ["old"]
        nobodys = await harness.releases.declared("nobody")
        assert (nobodys.schedules, nobodys.releases) == ([], [])

    async def test_removed_schedules_are_not_declared(self, harness: Harness) -> None:
        await harness.add("a", app="shop")
        old = await harness.add("b", app="shop")
        [paused] = await harness.schedules.change([replacing(old, active=False, reason="paused")])
        await harness.schedules.remove("a")
        assert (await harness.releases.declared("shop")).schedules == [paused]

    async def test_prune_forgets_what_is_old_and_not_kept_and_not_the_newest(
        self, harness: Harness
    ) -> None:
        fence = await harness.in_office()
        for app in ("shop", "bank"):
            for digest in ("1", "2", "3"):
                await harness.releases.announce(app, Release(digest, {}))
        await harness.advance(harness.ttl * 2)
        await harness.releases.announce("bank", Release("2", {}))
        kept = [("shop", "2"), ("bank", "9"), ("other", "1")]
        assert await harness.releases.prune(fence, harness.ttl, kept) == 2
        await harness.advance(harness.ttl)
        await harness.releases.announce("bank", Release("2", {}))
        shop, bank = [
            [release.digest for release in (await harness.releases.declared(app)).releases]
            for app in ("shop", "bank")
        ]
        assert (shop, bank) == (["2", "3"], ["2", "3"])
        assert await harness.releases.prune(fence, harness.ttl, []) == 1

    async def test_forgotten_release_is_the_newest_when_it_comes_back(
        self, harness: Harness
    ) -> None:
        fence = await harness.in_office()
        for release in (OLD, NEW):
            await harness.releases.announce("shop", release)
        await harness.advance(harness.ttl * 2)
        await harness.releases.prune(fence, harness.ttl, [])
        await harness.releases.announce("shop", OLD)
        found = (await harness.releases.declared("shop")).releases
        assert [release.digest for release in found] == ["new", "old"]

    async def test_prune_with_a_stale_fence_forgets_nothing(self, harness: Harness) -> None:
        await harness.in_office(term=2)
        for release in (OLD, NEW):
            await harness.releases.announce("shop", release)
        await harness.advance(harness.ttl * 2)
        with pytest.raises(Fenced):
            await harness.releases.prune(Fence(SCOPE, 1, "ann"), harness.ttl, [])
        assert len((await harness.releases.declared("shop")).releases) == 2

    async def test_prune_needs_no_fence(self, harness: Harness) -> None:
        await harness.in_office(3, "ann")
        for release in (OLD, NEW):
            await harness.releases.announce("shop", release)
        await harness.advance(harness.ttl * 2)
        assert await harness.releases.prune(None, harness.ttl, [], dry_run=True) == 1
        assert len((await harness.releases.declared("shop")).releases) == 2
        assert await harness.releases.prune(None, harness.ttl, [("shop", "old")]) == 0
        assert await harness.releases.prune(None, harness.ttl, []) == 0  # it was in use just now
        await harness.advance(harness.ttl)
        assert await harness.releases.prune(None, harness.ttl, []) == 1

    async def test_release_in_use_is_remembered_for_a_while(self, harness: Harness) -> None:
        """Its nodes may come back. But it does not look as if one had just been started."""
        fence = await harness.in_office()
        for release in (OLD, NEW):
            await harness.releases.announce("shop", release)
        for _ in range(4):
            await harness.advance(harness.ttl)
            await harness.releases.prune(fence, harness.ttl * 2, [("shop", "old")])
        declared = await harness.releases.declared("shop")
        assert declared.releases[0].announced_at is not None
        age = (declared.now - declared.releases[0].announced_at).total_seconds()
        assert harness.ttl * 0.4 <= age <= harness.ttl * 1.2
        assert await harness.releases.prune(fence, harness.ttl * 2, []) == 0
        await harness.advance(harness.ttl * 2)
        assert await harness.releases.prune(fence, harness.ttl * 2, []) == 1
