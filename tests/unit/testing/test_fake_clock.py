"""The clock that users move by hand."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tenure.testing import FakeClock


async def test_advance_moves_both_clocks_and_jump_only_the_wall() -> None:
    clock = FakeClock()
    wall, boot = clock.now(), clock.monotonic()
    clock.advance(1.5)
    clock.jump(-3600)
    assert clock.now() - wall == timedelta(seconds=1.5 - 3600)
    assert clock.monotonic() - boot == 1.5


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
async def test_time_does_not_go_back_nor_stand_still_for_ever(seconds: float) -> None:
    clock = FakeClock()
    before = clock.monotonic()
    with pytest.raises(ValueError, match="jump"):
        clock.advance(seconds)
    assert clock.monotonic() == before


async def test_sleepers_wake_when_their_time_has_come() -> None:
    clock, woken = FakeClock(), list[float]()

    async def sleeper(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(seconds)

    tasks = [asyncio.ensure_future(sleeper(seconds)) for seconds in (3, 1, 2)]
    await clock.settle()
    clock.jump(100)
    await clock.settle()
    assert woken == []
    clock.advance(1)
    await clock.settle()
    assert woken == [1]
    clock.advance(5)
    await asyncio.gather(*tasks)
    assert sorted(woken) == [1, 2, 3]


async def test_wait_ends_with_the_event_or_with_the_time() -> None:
    clock, event = FakeClock(), asyncio.Event()
    waiting = asyncio.ensure_future(clock.wait(event, 5))
    await clock.settle()
    clock.advance(4.9)
    await clock.settle()
    assert not waiting.done()
    clock.advance(0.1)
    assert await waiting is False
    waiting = asyncio.ensure_future(clock.wait(event, 5))
    await clock.settle()
    event.set()
    assert await waiting is True
    assert await clock.wait(event, None) is True
    assert await clock.wait(asyncio.Event(), 0) is False


async def test_blocking_returns_at_once_and_no_time_passes() -> None:
    clock = FakeClock()
    before = clock.monotonic()
    clock.block(1_000)
    assert clock.monotonic() == before
