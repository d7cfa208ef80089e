"""How much one transaction takes."""

from __future__ import annotations

import asyncio

import pytest

from tenure.node.batch_size import Portion
from tenure.testing import FakeClock


async def test_a_portion_that_is_given_up_before_it_begins_makes_no_call() -> None:
    portion, calls = Portion(8, limit=1.0), list[int]()

    async def call() -> None:
        calls.append(portion.size)

    taking = asyncio.ensure_future(portion.take(8, call, FakeClock()))
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert not calls  # nor is a coroutine left that nobody awaits, which would be a warning


async def test_what_does_not_fit_is_halved_and_grows_again_when_it_is_quick() -> None:
    portion = Portion(8, limit=1.0)

    async def fails() -> None:
        raise TimeoutError

    async def fits() -> str:
        return "done"

    for size in (4, 2, 1, 1):
        with pytest.raises(TimeoutError):
            await portion.take(portion.size, fails, FakeClock())
        assert portion.size == size
    for size in (2, 4, 8, 8):
        assert await portion.take(portion.size, fits, FakeClock()) == "done"
        assert portion.size == size
