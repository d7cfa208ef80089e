"""Tenure's own thread and loop."""

from __future__ import annotations

import asyncio
import time

from tenure.engine import Engine


async def test_close_cancels_what_is_under_way_and_does_not_wait_for_itself() -> None:
    cancelled = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    engine = Engine()
    under_way = asyncio.run_coroutine_threadsafe(forever(), engine.loop)
    await engine.call_async(asyncio.sleep(0))
    begun = time.monotonic()
    engine.close()
    assert time.monotonic() - begun < 0.5
    assert under_way.cancelled()
    assert cancelled == [True]
