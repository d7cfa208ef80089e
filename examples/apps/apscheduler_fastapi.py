"""An AsyncIOScheduler of a FastAPI application, under the guard.

cd examples/apps
uvicorn apscheduler_fastapi:app --workers 3
"""

import os

from apscheduler.events import EVENT_JOB_EXECUTED, JobExecutionEvent
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from fastapi import FastAPI

from tenure.contrib.apscheduler import guard


async def sweep() -> None:
    """What you have."""


def swept(event: JobExecutionEvent) -> None:
    print(f"{event.scheduled_run_time:%H:%M:%S} swept by process {os.getpid()}", flush=True)


jobs = AsyncIOScheduler()
jobs.add_job(sweep, "cron", second="*", misfire_grace_time=30)
jobs.add_listener(swept, EVENT_JOB_EXECUTED)

only_one = guard(jobs)  # $TENURE_URL, else sqlite:///tenure.db
app = FastAPI(lifespan=only_one.lifespan)


@app.get("/")
async def index() -> dict[str, object]:
    return {"leads": only_one.is_leader, "pid": os.getpid()}
