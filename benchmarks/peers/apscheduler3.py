"""APScheduler 3, with its SQLAlchemy job store: jobs whose time has come, and their next time.

What it runs is not durable: a job is handed to a thread, and its next time is written.
"""
# Not type-checked: it has no types.
# mypy: ignore-errors

from __future__ import annotations

import pickle
import threading
import time
from datetime import UTC, datetime, timedelta

from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger
from apscheduler.util import datetime_to_utc_timestamp

from benchmarks.peers.workload import Options, options, rules, tell

JOB = "benchmarks.peers.apscheduler3:nothing"


def nothing(user: int) -> None:
    pass


def main(given: Options) -> None:
    store = SQLAlchemyJobStore(given.url.replace("postgresql:", "postgresql+psycopg:"))
    scheduler = BackgroundScheduler(jobstores={"default": store}, timezone=UTC)
    scheduler.start(paused=True)
    _fill(store, scheduler, given.due)
    update, done, moved = store.update_job, threading.Event(), []

    def counted(job):  # noqa: ANN001, ANN202
        update(job)
        moved.append(job.id)
        if len(moved) == given.due:
            done.set()

    store.update_job = counted
    begun = time.perf_counter()
    scheduler.resume()
    done.wait()
    tell(len(moved), begun)
    scheduler.shutdown(wait=True)


def _fill(store: SQLAlchemyJobStore, scheduler: BackgroundScheduler, count: int) -> None:
    """In one transaction: by itself it makes one for each job."""
    jobs = []
    store.add_job = jobs.append
    due = datetime.now(UTC) - timedelta(seconds=30)
    for number, (seconds, expression) in enumerate(rules(count, 1.0)):
        scheduler.add_job(
            JOB,
            IntervalTrigger(seconds=seconds, timezone=UTC)
            if expression is None
            else CronTrigger.from_crontab(expression, timezone=UTC),
            kwargs={"user": 1},
            id=f"bench-{number:06}",
            next_run_time=due,
            misfire_grace_time=None,
            coalesce=True,
        )
    rows = [
        {
            "id": job.id,
            "next_run_time": datetime_to_utc_timestamp(job.next_run_time),
            "job_state": pickle.dumps(job.__getstate__(), store.pickle_protocol),
        }
        for job in jobs
    ]
    with store.engine.begin() as connection:
        connection.execute(store.jobs_t.insert(), rows)


if __name__ == "__main__":
    main(options())
