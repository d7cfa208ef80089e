"""Clauses of `EditionStore`: what apps announce, in which order, and what is forgotten."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tenure.errors import Fenced
from tenure.model import Edition, Fence, TaskRule
from tenure.testing.contract.harness import SCOPE, Harness, replacing, together

OLD, NEW = Edition("old", {"a": "1", "b": "1"}), Edition("new", {"a": "2", "ü": "1"})


class EditionContract:
    """Announce, declared, prune."""

    async def test_release_is_stored_as_it_was_announced(self, harness: Harness) -> None:
        before = await harness.now()
        await harness.editions.announce("shop", NEW)
        other = await harness.another()
        declared = await other.editions.declared("shop")
        [stored] = declared.editions
        assert (stored.digest, stored.definitions) == (NEW.digest, NEW.definitions)
        assert stored.announced_at is not None
        assert before <= stored.announced_at <= declared.now

    async def test_releases_are_numbered_in_the_order_of_their_first_announcement(
        self, harness: Harness
    ) -> None:
        for edition in (OLD, NEW, OLD, NEW, OLD):
            await harness.editions.announce("shop", edition)
        old, new = (await harness.editions.declared("shop")).editions
        assert (old.digest, new.digest) == ("old", "new")
        assert old.number < new.number

    async def test_announcing_again_keeps_the_number_and_notes_the_time(
        self, harness: Harness
    ) -> None:
        await harness.editions.announce("shop", OLD)
        [first] = (await harness.editions.declared("shop")).editions
        await harness.advance(harness.ttl)
        await harness.editions.announce("shop", OLD)
        [again] = (await harness.editions.declared("shop")).editions
        assert again.number == first.number
        assert again.announced_at is not None
        assert first.announced_at is not None
        assert again.announced_at - first.announced_at >= timedelta(seconds=harness.ttl)

    async def test_of_many_simultaneous_announcements_there_is_one_edition(
        self, harness: Harness
    ) -> None:
        backends = await harness.backends(4)
        answers = await together(
            *(backends[i % 4].editions.announce("shop", (OLD, NEW)[i % 2]) for i in range(16))
        )
        assert answers == [None] * 16
        found = (await harness.editions.declared("shop")).editions
        assert sorted(edition.digest for edition in found) == ["new", "old"]
        assert found[0].number < found[1].number

    async def test_apps_have_schedules_and_releases_of_their_own(self, harness: Harness) -> None:
        await harness.editions.announce("shop", OLD)
        await harness.editions.announce("bank", OLD)
        await harness.editions.announce("bank", NEW)
        mine = [await harness.add("b", app="shop"), await harness.add("a", app="shop")]
        await harness.add("c", app="bank")
        await harness.add("d")
        declared = await harness.editions.declared("shop")
        assert declared.schedules == mine[::-1]
        assert [edition.digest for edition in declared.editions] == ["old"]
        nobodys = await harness.editions.declared("nobody")
        assert (nobodys.schedules, nobodys.editions) == ([], [])

    async def test_removed_schedules_are_not_declared(self, harness: Harness) -> None:
        await harness.add("a", app="shop")
        old = await harness.add("b", app="shop")
        [paused] = await harness.schedules.change([replacing(old, active=False, reason="paused")])
        await harness.schedules.remove("a")
        assert (await harness.editions.declared("shop")).schedules == [paused]

    async def test_prune_forgets_what_is_old_and_not_kept_and_not_the_newest(
        self, harness: Harness
    ) -> None:
        fence = await harness.in_office()
        for app in ("shop", "bank"):
            for digest in ("1", "2", "3"):
                await harness.editions.announce(app, Edition(digest, {}))
        await harness.advance(harness.ttl * 2)
        await harness.editions.announce("bank", Edition("2", {}))
        kept = [("shop", "2"), ("bank", "9"), ("other", "1")]
        assert await harness.editions.prune(fence, harness.ttl, kept) == 2
        await harness.advance(harness.ttl)
        await harness.editions.announce("bank", Edition("2", {}))
        shop, bank = [
            [edition.digest for edition in (await harness.editions.declared(app)).editions]
            for app in ("shop", "bank")
        ]
        assert (shop, bank) == (["2", "3"], ["2", "3"])
        assert await harness.editions.prune(fence, harness.ttl, []) == 1

    async def test_prune_ends_the_rules_of_an_app_that_is_gone(self, harness: Harness) -> None:
        fence = await harness.in_office()
        rules = {task: TaskRule(max_running=1) for task in "ab"}
        apps = ("gone", "kept", "young")
        for app in apps:
            await harness.editions.announce(app, OLD)
            await harness.editions.set_rules(app, rules)
        await harness.advance(harness.ttl * 2)
        await harness.editions.announce("young", NEW)
        keep = [("kept", "old")]
        await harness.editions.prune(fence, harness.ttl * 9, [])
        await harness.editions.prune(None, harness.ttl, keep, dry_run=True)
        assert (await harness.editions.declared("gone")).rules == rules
        await harness.editions.prune(fence, harness.ttl, keep)
        found = [(await harness.editions.declared(app)).rules for app in apps]
        assert found == [{}, rules, rules]

    async def test_forgotten_release_is_the_newest_when_it_comes_back(
        self, harness: Harness
    ) -> None:
        fence = await harness.in_office()
        for edition in (OLD, NEW):
            await harness.editions.announce("shop", edition)
        await harness.advance(harness.ttl * 2)
        await harness.editions.prune(fence, harness.ttl, [])
        await harness.editions.announce("shop", OLD)
        found = (await harness.editions.declared("shop")).editions
        assert [edition.digest for edition in found] == ["new", "old"]

    async def test_prune_with_a_stale_fence_forgets_nothing(self, harness: Harness) -> None:
        await harness.in_office(term=2)
        for edition in (OLD, NEW):
            await harness.editions.announce("shop", edition)
        await harness.advance(harness.ttl * 2)
        with pytest.raises(Fenced):
            await harness.editions.prune(Fence(SCOPE, 1, "ann"), harness.ttl, [])
        assert len((await harness.editions.declared("shop")).editions) == 2

    async def test_prune_needs_no_fence(self, harness: Harness) -> None:
        await harness.in_office(3, "ann")
        for edition in (OLD, NEW):
            await harness.editions.announce("shop", edition)
        await harness.advance(harness.ttl * 2)
        assert await harness.editions.prune(None, harness.ttl, [], dry_run=True) == 1
        assert len((await harness.editions.declared("shop")).editions) == 2
        assert await harness.editions.prune(None, harness.ttl, [("shop", "old")]) == 0
        assert await harness.editions.prune(None, harness.ttl, []) == 0  # it was in use just now
        await harness.advance(harness.ttl)
        assert await harness.editions.prune(None, harness.ttl, []) == 1

    async def test_release_in_use_is_remembered_for_a_while(self, harness: Harness) -> None:
        """Its nodes may come back. But it does not look as if one had just been started."""
        fence = await harness.in_office()
        for edition in (OLD, NEW):
            await harness.editions.announce("shop", edition)
        for _ in range(4):
            await harness.advance(harness.ttl)
            await harness.editions.prune(fence, harness.ttl * 2, [("shop", "old")])
        declared = await harness.editions.declared("shop")
        assert declared.editions[0].announced_at is not None
        age = (declared.now - declared.editions[0].announced_at).total_seconds()
        assert harness.ttl * 0.4 <= age <= harness.ttl * 1.2
        assert await harness.editions.prune(fence, harness.ttl * 2, []) == 0
        await harness.advance(harness.ttl * 2)
        assert await harness.editions.prune(fence, harness.ttl * 2, []) == 1
