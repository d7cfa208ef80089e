"""Cancelling a call, at any moment of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from tenure.process.clock import wait_event
from tenure.testing.contract.harness import Harness, LeaseHarness, turn

TIMES = 60
AT_ONCE = 3.0
"""Seconds, on a busy machine."""
Call = Callable[[], Coroutine[Any, Any, object]]


class LeaseCancellingContract:
    """A caller whose time is up cancels. Whoever asks next must not notice."""

    async def test_a_cancelled_call_ends_at_once(self, harness: LeaseHarness) -> None:
        names = ["one", "two", "three"]
        for name in names:
            await harness.grant(name, holder=name)
        for read in (harness.leases.all, lambda: harness.leases.read("one")):
            await _cancelled_throughout(read)
            await _own_answers(harness, names)

    async def test_a_cancelled_write_can_be_made_again(self, harness: LeaseHarness) -> None:
        """Whether it was made is not known: so a holder asks again, and has it."""
        numbers = iter(range(10_000))

        async def acquire() -> object:
            number = next(numbers)
            return await harness.leases.acquire(f"{number}", harness.holder("ann"), harness.ttl)

        await _cancelled_throughout(acquire)
        for number in range(next(numbers)):
            again = await harness.grant(f"{number}")
            assert (again.name, again.holder) == (f"{number}", "ann")
            assert await harness.leases.renew([again]) == {again}


class CancellingContract(LeaseCancellingContract):
    """The same of schedules and runs."""

    async def test_a_cancelled_look_at_schedules_ends_at_once(self, harness: Harness) -> None:
        names = ["one", "two", "three"]
        for name in names:
            await harness.add(name, due_in=1_000)
            await harness.grant(name, holder=name)
        reads: Sequence[Call] = (
            lambda: harness.schedules.due(10),
            lambda: harness.schedules.find(names),
            harness.runs.find,
        )
        for read in reads:
            await _cancelled_throughout(read)
            await _own_answers(harness, names)
            assert list(await harness.schedules.find(names[:1])) == names[:1]
            assert await harness.runs.find() == []


async def _cancelled_throughout(call: Call) -> None:
    """Cancel this call again and again: before it begins, and ever later until it is over."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await call()
    whole = loop.time() - begun
    for number in range(TIMES):
        task = asyncio.create_task(call())
        await _pass(number // 2, whole * number / TIMES)
        if not task.cancel():
            await task
            continue
        begun = loop.time()
        await asyncio.wait([task])
        assert task.cancelled(), f"cancellation {number} of {TIMES} was lost"
        assert loop.time() - begun < AT_ONCE


async def _pass(turns: int, seconds: float) -> None:
    await wait_event(asyncio.Event(), seconds)
    for _ in range(turns % 8):
        await turn()


async def _own_answers(harness: LeaseHarness, names: Sequence[str]) -> None:
    records = [await harness.leases.read(name) for name in names]
    assert [r and (r.name, r.holder) for r in records] == [(name, name) for name in names]
    assert {r.name for r in await harness.leases.all()} == set(names)
