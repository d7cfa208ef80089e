"""pgqueuer's worker: jobs that wait are dequeued, run, and moved to its log.

A hundred at a time: with its default of ten it is slower. It ends by itself when nothing waits.
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
from pgqueuer.types import QueueExecutionMode

from benchmarks.peers.workload import Options, options, tell


async def main(given: Options) -> None:
    connection = await asyncpg.connect(given.url)
    driver = AsyncpgDriver(connection)
    await Queries(driver).install()
    queuer = PgQueuer(driver)

    @queuer.entrypoint("nothing")
    async def nothing(job) -> None:  # noqa: ANN001
        pass

    for first in range(0, given.due, 1_000):
        count = min(1_000, given.due - first)
        await queuer.qm.queries.enqueue(["nothing"] * count, [b"{}"] * count, [0] * count)
    begun = time.perf_counter()
    await queuer.qm.run(batch_size=100, mode=QueueExecutionMode.drain)
    ended = time.perf_counter()
    reader = await asyncpg.connect(given.url)
    found = await reader.fetchval("SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'")
    tell(found, begun + time.perf_counter() - ended)
    await reader.close()
    await connection.close()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main(options()))
