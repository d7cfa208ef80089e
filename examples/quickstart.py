"""Run it in two or three terminals: python examples/quickstart.py

Each sweep is printed by one of the processes. Stop or kill any of them: the others go on.
"""

import os

from tenure import Run, Scheduler, cron, every

scheduler = Scheduler("sqlite:///tenure.db")


@scheduler.task(every(seconds=2))
def sweep(run: Run) -> None:
    print(f"{run.nominal:%H:%M:%S} swept by process {os.getpid()}", flush=True)


@scheduler.task(cron("0 7 * * *", tz="Europe/Berlin"), retries=3, timeout=60)
async def report() -> None:
    print("good morning", flush=True)


if __name__ == "__main__":
    scheduler.run()
