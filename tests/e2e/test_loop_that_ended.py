"""An application whose loop has ended, and that did not stop its scheduler."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tenure import AsyncScheduler, Run, Scheduler, Settings
from tests.e2e.command import until


def test_its_node_fails_no_run_and_leaves_them_to_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite:///{tmp_path}/tenure.db"
    begun = asyncio.Event()
    scheduler = AsyncScheduler(url, settings=Settings(backoff=0.01))

    @scheduler.task
    async def job(run: Run) -> str:
        begun.set()
        if run.attempt == 1:
            await asyncio.sleep(600)
        return run.node

    async def main() -> int:
        await scheduler.start()
        run = await scheduler.enqueue(job)
        async with asyncio.timeout(30):
            await begun.wait()
        return run.id

    run = asyncio.run(main())
    blocking = scheduler.blocking
    until(lambda: "executes nothing more" in caplog.text, "the node to say so")
    until(lambda: blocking.get_run(run).state == "waiting", "the run to be given back")
    later = blocking.enqueue(job)
    other = Scheduler(url)
    other.task(name="job")(lambda: "done")
    with other:
        assert other.result(later, 30) == "done"
        assert other.result(run, 30) == "done"
    assert [attempt.outcome for attempt in blocking.attempts(run)] == ["put back"]
    assert blocking.get_run(run).attempt == 2
    asyncio.run(scheduler.stop())
