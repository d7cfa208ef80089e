"""APScheduler 4, with its SQLAlchemy data store: due schedules become rows of jobs.

Its scheduling side only; executing the jobs is a second role, which makes both slower.
"""
# Not type-checked: another major version is installed where this is checked.
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime, timedelta

from apscheduler import AsyncScheduler, CoalescePolicy, SchedulerRole
from apscheduler.datastores.sqlalchemy import SQLAlchemyDataStore
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks.peers.workload import Options, options, rules, tell


async def nothing(user: int) -> None:
    pass


async def main(given: Options) -> None:
    engine = create_async_engine(given.url.replace("postgresql:", "postgresql+asyncpg:"))
    store = SQLAlchemyDataStore(engine)
    release, done, moved = store.release_schedules, asyncio.Event(), []

    async def counted(scheduler_id, results):  # noqa: ANN001, ANN202
        await release(scheduler_id, results)
        moved.extend(results)
        if len(moved) >= given.due:
            done.set()

    store.release_schedules = counted
    async with AsyncScheduler(store, role=SchedulerRole.scheduler) as scheduler:
        await scheduler.configure_task("nothing", func=nothing, max_running_jobs=None)
        await _fill(scheduler, engine, given.due)
        begun = time.perf_counter()
        await scheduler.start_in_background()
        await done.wait()
        tell(len(moved), begun)
        await scheduler.stop()


async def _fill(scheduler: AsyncScheduler, engine, count: int) -> None:  # noqa: ANN001
    """One schedule of each kind through it, the others as their copies: by itself it makes a
    transaction for each. It reads every trigger anew, so that copies cost it no less."""
    due = datetime.now(UTC) - timedelta(seconds=30)
    for name, (seconds, expression) in zip(("every", "cron"), rules(2, 1.0), strict=True):
        trigger = (
            IntervalTrigger(seconds=seconds, start_time=due)
            if expression is None
            else CronTrigger.from_crontab("* * * * *", timezone=UTC)
        )
        await scheduler.add_schedule(
            "nothing", trigger, id=name, kwargs={"user": 1}, coalesce=CoalescePolicy.latest
        )
    async with engine.begin() as connection:
        found = await connection.execute(
            text(
                "SELECT quote_ident(column_name) FROM information_schema.columns"
                " WHERE table_name = 'schedules' AND column_name <> 'id'"
            )
        )
        columns = ", ".join(row[0] for row in found)
        await connection.execute(text("UPDATE schedules SET next_fire_time = :due"), {"due": due})
        copies = await connection.execute(
            text(
                f"INSERT INTO schedules (id, {columns})"
                f" SELECT s.id || n, {columns} FROM schedules s, generate_series(2, :each) n"
            ),
            {"each": count // 2},
        )
        assert copies.rowcount == count - 2


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main(options()))
