"""FastAPI with a scheduler in every worker: they are one cluster.

cd examples/apps
uvicorn fastapi_app:app --workers 3      # or --reload, or one alone
curl localhost:8000/ready                # 200 from a standby too: {"ready":true,"leads":false,…}
open http://localhost:8000/tenure/       # the dashboard, for this machine's users

Each sweep is printed by one of the workers. Kill any of them: the others go on.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from tenure import AsyncScheduler, Run, every
from tenure.contrib.fastapi import lifespan, readiness
from tenure.web import dashboard

scheduler = AsyncScheduler()  # $TENURE_URL, else sqlite:///tenure.db


@scheduler.task(every(seconds=0.5), overlap="queue")
async def sweep(run: Run) -> None:
    print(f"{run.nominal:%H:%M:%S.%f} swept by process {os.getpid()}", flush=True)


@asynccontextmanager
async def database(app: FastAPI) -> AsyncIterator[None]:
    """What the tasks need: opened before the scheduler starts, closed after it has stopped."""
    print(f"process {os.getpid()} is open", flush=True)
    yield
    print(f"process {os.getpid()} is closed, running: {scheduler.running}", flush=True)


app = FastAPI(lifespan=lifespan(database, scheduler))
app.add_route("/ready", readiness(scheduler))
app.mount("/tenure", dashboard(scheduler))
