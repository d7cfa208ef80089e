"""pgqueuer: schedules of every second, which it executes itself.

It does not say which second is meant, so only how many were executed is told.
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

from benchmarks.peers.workload import Options, options, stretch, tell_starts


async def main(given: Options) -> None:
    connection = await asyncpg.connect(given.url)
    driver = AsyncpgDriver(connection)
    await Queries(driver).install()
    queuer = PgQueuer(driver)
    starts = []

    async def work(schedule) -> None:  # noqa: ANN001
        starts.append((None, time.time()))

    for number in range(given.due):
        queuer.schedule(f"bench-{number:06}", "* * * * * *")(work)
    running = asyncio.create_task(queuer.sm.run())
    begin, end = stretch(given.seconds)
    await asyncio.wait({running}, timeout=end - time.time())
    queuer.sm.shutdown.set()
    await running
    tell_starts([start for start in starts if begin <= start[1] < end])


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main(options()))
