"""A Celery application whose beats are killed: RedBeat's in its own environment, Tenure's in ours.

`celery -A benchmarks.peers.redbeat beat -S redbeat.RedBeatScheduler`; its settings are JSON in
$BEAT. Nobody executes what is sent. The intervals differ, so that something is due all the time.
"""

from __future__ import annotations

import json
import os

from celery import Celery

SCHEDULES = 20

app = Celery("beat")
app.conf.update(
    timezone="UTC",
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
    beat_schedule={
        f"s{number}": {"task": "noop", "schedule": 0.5 + number / 100}
        for number in range(SCHEDULES)
    },
    **json.loads(os.environ["BEAT"]),
)
