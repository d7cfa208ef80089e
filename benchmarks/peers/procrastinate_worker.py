"""procrastinate's worker: jobs that wait are fetched, run, and recorded as succeeded.

Twenty at a time, as a node of ours does by default. It ends by itself when nothing waits.
"""
# Not type-checked: it is not installed where this is checked.
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import logging
import time

from procrastinate import App, PsycopgConnector

from benchmarks.peers.workload import Options, options, tell


async def main(given: Options) -> None:
    app = App(connector=PsycopgConnector(conninfo=given.url))

    @app.task(name="nothing")
    async def nothing(user: int) -> None:
        pass

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for first in range(0, given.due, 1_000):
            jobs = [{"user": 1}] * min(1_000, given.due - first)
            await nothing.batch_defer_async(*jobs)
        begun = time.perf_counter()
        await app.run_worker_async(wait=False, concurrency=20, install_signal_handlers=False)
        ended = time.perf_counter()
        found = await app.connector.execute_query_one_async(
            "SELECT count(*) AS count FROM procrastinate_jobs WHERE status = 'succeeded'"
        )
    tell(found["count"], begun + time.perf_counter() - ended)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main(options()))
