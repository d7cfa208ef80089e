"""Clauses of `ScheduleStore`: the fence. One term's writes land, and no other's."""

from __future__ import annotations

import asyncio

import pytest

from tenure.errors import Fenced
from tenure.model import Fault, Fence, Fired
from tenure.testing.contract.harness import SCOPE, Harness, firing, together


class FenceContract:
    """Take office, floor, and who is refused."""

    async def test_floor_is_the_term_in_office(self, harness: Harness) -> None:
        assert await harness.schedules.floor(SCOPE) == 0
        await harness.in_office(term=7)
        other = await harness.another()
        assert await other.schedules.floor(SCOPE) == 7
        assert await other.schedules.floor("another scope") == 0

    async def test_higher_term_takes_office(self, harness: Harness) -> None:
        old = await harness.in_office(1, "ann")
        new = await harness.in_office(2, "bob")
        await harness.schedules.fire(new, [])
        with pytest.raises(Fenced):
            await harness.schedules.fire(old, [])

    async def test_take_office_is_idempotent_for_the_same_fence(self, harness: Harness) -> None:
        """The reply to the first may have been lost."""
        fence = await harness.in_office(3, "ann")
        assert await harness.schedules.take_office(fence)
        await harness.schedules.fire(fence, [])

    async def test_lower_term_cannot_take_office(self, harness: Harness) -> None:
        fence = await harness.in_office(3, "ann")
        assert not await harness.schedules.take_office(Fence(SCOPE, 2, "bob"))
        assert not await harness.schedules.take_office(Fence(SCOPE, 2, "ann"))
        assert await harness.schedules.floor(SCOPE) == 3
        await harness.schedules.fire(fence, [])

    async def test_equal_term_of_another_holder_is_fenced(self, harness: Harness) -> None:
        await harness.in_office(3, "ann")
        impostor = Fence(SCOPE, 3, "bob")
        assert not await harness.schedules.take_office(impostor)
        with pytest.raises(Fenced):
            await harness.schedules.fire(impostor, [])

    async def test_of_many_with_an_equal_term_one_takes_office(self, harness: Harness) -> None:
        backends = await harness.backends(4)
        answers = await together(
            *(b.schedules.take_office(Fence(SCOPE, 5, f"h{i}")) for i, b in enumerate(backends))
        )
        assert sorted(answers) == [False, False, False, True]

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
        await harness.in_office(5, "ann")
        assert await harness.schedules.take_office(Fence("another scope", 1, "bob"))
        assert await harness.schedules.floor(SCOPE) == 5

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
            assert await other.schedules.take_office(Fence(SCOPE, term + 1, "bob"))
            landed = len(await other.runs.all(f"s{term}"))
            [answer] = await under_way
            assert isinstance(answer, Fired if landed else Fenced)
            assert len(await other.runs.all(f"s{term}")) == landed

    async def test_fire_with_stale_fence_changes_nothing(self, harness: Harness) -> None:
        old, schedule = await harness.in_office(1, "ann"), await harness.add("a")
        broken = await harness.add("broken")
        await harness.in_office(2, "bob")
        fault = Fault(broken.uid, broken.version, "cannot be read")
        with pytest.raises(Fenced):
            await harness.schedules.fire(old, [firing(schedule)], [fault])
        assert await harness.the("a") == schedule
        assert await harness.the("broken") == broken
        assert await harness.runs.all() == []
        assert await harness.schedules.occurrences("a") == []
