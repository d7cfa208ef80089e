"""pgqueuer: schedules whose time has come are picked, run, and given their next time.

It knows cron only. What is scheduled is declared in its program; the times are in the database.
"""
# Not type-checked: it is not installed where this is checked.
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import logging
import time

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.queries import Queries

from benchmarks.peers.workload import Options, options, tell


async def main(given: Options) -> None:
    connection = await asyncpg.connect(given.url)
    driver = AsyncpgDriver(connection)
    await Queries(driver).install()
    queuer = PgQueuer(driver)

    async def nothing(schedule) -> None:  # noqa: ANN001
        pass

    for number in range(given.due):
        queuer.schedule(f"bench-{number:06}", "* * * * *")(nothing)
    queries, done, moved, begun = queuer.sm.queries, asyncio.Event(), [], []
    insert, queued = queries.insert_schedule, queries.set_schedule_queued

    async def inserted(schedules) -> None:  # noqa: ANN001
        await insert(schedules)
        await driver.execute("UPDATE pgqueuer_schedules SET next_run = now() - interval '30 s'")
        begun.append(time.perf_counter())

    async def counted(ids) -> None:  # noqa: ANN001
        await queued(ids)
        moved.extend(ids)
        if len(moved) >= given.due:
            done.set()

    object.__setattr__(queries, "insert_schedule", inserted)
    object.__setattr__(queries, "set_schedule_queued", counted)
    task = asyncio.create_task(queuer.sm.run())
    finished = asyncio.create_task(done.wait())
    await asyncio.wait({task, finished}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    tell(len(moved), begun[-1])
    queuer.sm.shutdown.set()
    await task
    await connection.close()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main(options()))
