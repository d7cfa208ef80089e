"""What tasks tell in a world is on record there, also from threads of their own."""

from __future__ import annotations

import asyncio
import threading

from tenure import AsyncScheduler, Run, Scheduler, every
from tenure.testing import testing


def test_log_and_progress_are_on_record() -> None:
    scheduler = Scheduler("sqlite:///nowhere.db")

    @scheduler.task(every(hours=1), retries=1)
    def sweep(run: Run) -> None:
        run.progress(0.5, "half")
        teller = threading.Thread(target=run.log, args=("from a thread",))
        teller.start()
        teller.join()
        if run.attempt == 1:
            raise ValueError("not yet")

    with testing(scheduler) as world:
        world.advance(hours=1, minutes=5)
        [run] = world.runs("sweep")
        attempts = scheduler.attempts(run)
    assert [(a.outcome, a.log, a.progress) for a in attempts] == [
        ("failed", "from a thread\n", 0.5),
        ("succeeded", "from a thread\n", 0.5),
    ]


async def test_progress_is_seen_while_a_coroutine_runs() -> None:
    scheduler = AsyncScheduler("sqlite:///nowhere.db")

    @scheduler.task(every(hours=1))
    async def sweep(run: Run) -> None:
        for minute in range(10):
            run.progress(minute / 10)
            await asyncio.sleep(60)

    async with testing(scheduler) as world:
        world.advance(hours=1, minutes=4, seconds=30)
        [run] = world.runs("sweep")
        [attempt] = await scheduler.attempts(run)
    assert (attempt.outcome, attempt.progress) == (None, 0.4)


def test_cancellation_that_nobody_asked_for_is_a_failure() -> None:
    scheduler = Scheduler("sqlite:///nowhere.db")

    @scheduler.task(every(hours=1))
    async def sweep() -> None:
        other = asyncio.create_task(asyncio.sleep(60))
        other.cancel()
        await other

    with testing(scheduler) as world:
        world.advance(hours=1)
        assert [str(run.state) for run in world.runs("sweep")] == ["failed"]
        assert [type(failure.error) for failure in world.failures] == [asyncio.CancelledError]
