"""An APScheduler under the guard: run it twice, and one of them runs the jobs.

cd examples/apps
python apscheduler_jobs.py              # in two terminals
python apscheduler_jobs.py shared       # the jobs in a database that both share

Kill the one that prints: the other takes over. With jobs in memory, a time that comes while nobody
leads is left out, as if APScheduler had been restarted; a shared job store catches it up.
"""

import os
import signal
import sys

from apscheduler.events import EVENT_JOB_EXECUTED, EVENT_SCHEDULER_STARTED, JobExecutionEvent
from apscheduler.schedulers.background import BackgroundScheduler

from tenure.contrib.apscheduler import guard


def sweep() -> None:
    """What you have."""


def swept(event: JobExecutionEvent) -> None:
    print(f"{event.scheduled_run_time:%H:%M:%S} swept by process {os.getpid()}", flush=True)


def main(shared: bool) -> None:
    jobs = BackgroundScheduler()
    if shared:
        jobs.add_jobstore("sqlalchemy", url="sqlite:///jobs.db")

    def declare(event: object) -> None:
        # Not replace_existing: that plans the job from now on, and forgets what is due.
        if jobs.get_job("sweep") is None:
            policy = {"coalesce": False, "misfire_grace_time": 30}
            jobs.add_job(sweep, "cron", second="*", id="sweep", **policy)

    jobs.add_listener(declare, EVENT_SCHEDULER_STARTED)
    jobs.add_listener(swept, EVENT_JOB_EXECUTED)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with guard(jobs):  # $TENURE_URL, else sqlite:///tenure.db
        print(f"process {os.getpid()} is there", flush=True)
        signal.pause()


if __name__ == "__main__":
    try:
        main(shared="shared" in sys.argv)
    except KeyboardInterrupt:
        print("stopped")
