"""A scheduler whose task copies the data folder by plain means, as a naive backup does.

The task holds the lease "guard" as well, and goes on until the test says leave. When it is fired
again, there is nothing left to do.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from tenure import Leases, Run, every
from tests.faults.programs.common import Options, start, told
from tests.faults.programs.node import make


def main(options: Options) -> None:
    scheduler = make(options)
    leases = Leases(options["url"])
    data = Path(options["url"].removeprefix("sqlite:///")).parent

    copied: list[int] = []

    def copy() -> None:
        with leases.hold("guard", ttl=options["ttl"]) as lease:
            shutil.copytree(data, options["copy"])
            options.write("copied", term=lease.term)
            told(options, "leave")
            lease.check()

    def back_up(run: Run) -> None:
        options.write(
            "begin",
            run=run.id,
            schedule=run.schedule,
            nominal=round(run.nominal.timestamp() * 1_000_000),
            attempt=run.attempt,
        )
        if not copied:
            copied.append(run.id)
            copy()
        options.write("end", run=run.id, schedule=run.schedule, attempt=run.attempt)

    scheduler.task(every(seconds=0.25), name="back_up", overlap="skip")(back_up)
    scheduler.run()
    leases.close()
    options.write("ended")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    start(main)
