"""procrastinate: periodic tasks of every second, and a worker that executes them, in one process.

Its times are whole seconds, so all are due at once. Twenty at a time, as a node of ours by default.
"""
# Not type-checked: it is not installed where this is checked.
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import logging
import time

from procrastinate import App, PsycopgConnector

from benchmarks.peers.workload import Options, options, stretch, tell_starts


async def main(given: Options) -> None:
    app = App(connector=PsycopgConnector(conninfo=given.url))
    starts = []

    @app.task(name="work")
    async def work(timestamp: int, user: int) -> None:
        starts.append((timestamp, time.time()))

    for number in range(given.due):
        app.periodic_registry.register_task(
            task=work,
            cron="* * * * * */1",
            periodic_id=f"bench-{number:06}",
            configure_kwargs={"task_kwargs": {"user": 1}},
        )
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        worker = asyncio.create_task(
            app.run_worker_async(concurrency=20, install_signal_handlers=False)
        )
        begin, end = stretch(given.seconds)
        await asyncio.wait({worker}, timeout=end + 2 - time.time())
        worker.cancel()
    tell_starts([start for start in starts if begin <= start[0] < end])


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main(options()))
