"""A scheduler in an asyncio program: python examples/async_app.py

Coroutine tasks run on the program's own loop, so they may use its queues, sessions and pools.
Tenure's heartbeats do not: they have a loop of their own, which yours cannot block. The program
prints three readings and ends. In FastAPI or Starlette, `lifespan=scheduler.lifespan` does what
`async with scheduler` does here.
"""

import asyncio

from tenure import AsyncScheduler, Run, every

scheduler = AsyncScheduler()  # $TENURE_URL, else sqlite:///tenure.db
readings: asyncio.Queue[str] = asyncio.Queue()


@scheduler.task(every(seconds=0.5), timeout=5)
async def measure(run: Run) -> None:
    await readings.put(f"reading of {run.nominal:%H:%M:%S.%f}, attempt {run.attempt}")


async def main() -> None:
    async with scheduler:
        for _ in range(3):
            print(await readings.get(), flush=True)
        last = (await scheduler.runs("measure", state="succeeded", limit=1))[0]
        print(f"the last one that is on record as succeeded: {last.nominal:%H:%M:%S.%f}")


if __name__ == "__main__":
    asyncio.run(main())
