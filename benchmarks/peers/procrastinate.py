"""procrastinate: periodic tasks whose time has come become rows of jobs.

It knows cron only, and looks no further back than ten minutes: all are of every minute. What is
periodic is declared in its program, not in the database.
"""
# Not type-checked: it is not installed where this is checked.
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import logging
import time

from procrastinate import App, PsycopgConnector
from procrastinate.periodic import PeriodicDeferrer

from benchmarks.peers.workload import Options, options, tell


async def main(given: Options) -> None:
    app = App(connector=PsycopgConnector(conninfo=given.url))

    @app.task(name="nothing")
    async def nothing(timestamp: int, user: int) -> None:
        pass

    for number in range(given.due):
        app.periodic_registry.register_task(
            task=nothing,
            cron="* * * * *",
            periodic_id=f"bench-{number:06}",
            configure_kwargs={"task_kwargs": {"user": 1}},
        )
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        deferrer = PeriodicDeferrer(registry=app.periodic_registry)
        begun = time.perf_counter()
        await deferrer.defer_jobs(jobs_to_defer=deferrer.get_previous_tasks(at=time.time()))
        ended = time.perf_counter()
        found = await app.connector.execute_query_one_async(
            "SELECT count(*) AS count FROM procrastinate_jobs"
        )
    tell(found["count"], begun + time.perf_counter() - ended)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main(options()))
