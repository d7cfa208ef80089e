"""An asyncio program whose coroutines block the loop, as users' code does now and then."""

from __future__ import annotations

import asyncio
import logging
import time

from tenure import AsyncScheduler, Leases, Run, Settings, every
from tests.faults.programs.common import Options, start, told
from tests.faults.programs.node import listener


def main(options: Options) -> None:
    asyncio.run(live(options))


async def live(options: Options) -> None:
    scheduler = AsyncScheduler(options["url"], settings=Settings(ttl=options["ttl"]))
    scheduler.on("*", listener(options))

    @scheduler.task(every(seconds=0.25))
    def tick(run: Run) -> None:
        about = {"run": run.id, "schedule": run.schedule, "attempt": run.attempt}
        nominal = round(run.nominal.timestamp() * 1_000_000)
        options.write("begin", nominal=nominal, **about)
        options.write("end", nominal=nominal, **about)

    if options.get("until_signal"):
        await scheduler.run()
        options.write("ended")
        return
    leases = Leases(options["url"])
    async with scheduler, leases.hold("guard", ttl=options["ttl"]) as lease:
        while not scheduler.is_leader:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.01)
        options.write("ready", term=lease.term)
        told(options, "block")  # blocks as well
        options.write("blocking")
        time.sleep(options["block"])  # noqa: ASYNC251 - what this program is about
        lease.check()
        options.write("unblocked", leads=scheduler.is_leader, held=lease.held)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    start(main)
