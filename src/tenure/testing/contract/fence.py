"""Clauses of `Office`: the fence. One term's writes land, and no other's."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from tenure.errors import Fenced
from tenure.model import Fault, Fence, Fired
from tenure.testing.contract.harness import SCOPE, Harness, firing, together, turn


class FenceContract:
    """Take, and who is refused."""

    async def test_backlog_says_which_term_is_in_office(self, harness: Harness) -> None:
        assert (await harness.schedules.backlog(SCOPE)).term == 0
        await harness.in_office(term=7)
        other = await harness.another()
        assert (await other.schedules.backlog(SCOPE)).term == 7
        assert (await other.schedules.backlog("another scope")).term == 0

    async def test_higher_term_takes_office(self, harness: Harness) -> None:
        old = await harness.in_office(1, "ann")
        new = await harness.in_office(2, "bob")
        await harness.schedules.fire(new, [])
        with pytest.raises(Fenced):
            await harness.schedules.fire(old, [])

    async def test_take_office_is_idempotent_for_the_same_fence(self, harness: Harness) -> None:
        """The reply to the first may have been lost."""
        fence = await harness.in_office(3, "ann")
        assert await harness.office.take(fence) == fence
        await harness.schedules.fire(fence, [])

    async def test_lower_term_cannot_take_office(self, harness: Harness) -> None:
        """And learns above which term it has to ask again."""
        fence, other = await harness.in_office(3, "ann"), await harness.another()
        assert await other.office.take(Fence(SCOPE, 2, "bob")) == fence
        assert await harness.office.take(Fence(SCOPE, 2, "ann")) == fence
        await harness.schedules.fire(fence, [])

    async def test_equal_term_of_another_holder_is_fenced(self, harness: Harness) -> None:
        fence, impostor = await harness.in_office(3, "ann"), Fence(SCOPE, 3, "bob")
        assert await harness.office.take(impostor) == fence
        with pytest.raises(Fenced):
            await harness.schedules.fire(impostor, [])

    async def test_of_many_with_an_equal_term_one_takes_office(self, harness: Harness) -> None:
        backends = await harness.backends(4)
        fences = [Fence(SCOPE, 5, f"h{i}") for i in range(4)]
        answers = await together(*(b.office.take(f) for b, f in zip(backends, fences, strict=True)))
        assert len(set(answers)) == 1
        assert answers[0] in fences

    async def test_term_that_is_not_in_office_is_fenced(self, harness: Harness) -> None:
        """Neither before anybody was, nor above the one that is, nor in another scope."""
        with pytest.raises(Fenced):
            await harness.schedules.fire(Fence(SCOPE, 1, "ann"), [])
        await harness.in_office(1, "ann")
        with pytest.raises(Fenced):
            await harness.schedules.fire(Fence(SCOPE, 2, "ann"), [])
        with pytest.raises(Fenced):
            await harness.schedules.fire(Fence("another scope", 1, "ann"), [])

    async def test_scopes_are_independent(self, harness: Harness) -> None:
        fence, other = await harness.in_office(5, "ann"), Fence("another scope", 1, "bob")
        assert await harness.office.take(other) == other
        assert await harness.office.take(fence) == fence

    async def test_nothing_of_an_older_term_lands_after_office_was_taken(
        self, harness: Harness
    ) -> None:
        """Not even what was under way: it is waited for, or refused."""
        other = await harness.another()
        for term in range(1, 21, 2):
            old = await harness.in_office(term, "ann")
            schedule = await harness.add(f"s{term}")
            under_way = asyncio.ensure_future(
                together(harness.schedules.fire(old, [firing(schedule)]))
            )
            new = Fence(SCOPE, term + 1, "bob")
            assert await other.office.take(new) == new
            landed = len(await other.runs.find(schedule=f"s{term}"))
            [answer] = await under_way
            assert isinstance(answer, Fired if landed else Fenced)
            assert len(await other.runs.find(schedule=f"s{term}")) == landed

    async def test_taking_office_does_not_starve(self, harness: Harness) -> None:
        """Behind a leader that fires without a pause, and does not stop when it is refused."""
        other, schedule = await harness.another(), await harness.add("a")
        fence: Fence | None = await harness.in_office(1, "ann")

        async def fire_on() -> None:
            while fence is not None:
                with suppress(Fenced):
                    await harness.schedules.fire(fence, [firing(schedule)])
                await turn()

        tasks = [asyncio.ensure_future(fire_on()) for _ in range(3)]
        try:
            for term in range(2, 12):
                following = Fence(SCOPE, term, "bob")
                async with asyncio.timeout(30):
                    assert await other.office.take(following) == following
                fence = following
        finally:
            fence = None
            await asyncio.gather(*tasks)

    async def test_fire_with_stale_fence_changes_nothing(self, harness: Harness) -> None:
        old, schedule = await harness.in_office(1, "ann"), await harness.add("a")
        broken = await harness.add("broken")
        await harness.in_office(2, "bob")
        fault = Fault(broken.uid, broken.version, "cannot be read")
        with pytest.raises(Fenced):
            await harness.schedules.fire(old, [firing(schedule)], [fault])
        assert await harness.the("a") == schedule
        assert await harness.the("broken") == broken
        assert await harness.runs.find() == []
        assert await harness.schedules.occurrences("a") == []
