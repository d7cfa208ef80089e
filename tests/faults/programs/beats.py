"""A Celery application: beats that send, and a worker that writes to the journal what it executes.

`celery -A tests.faults.programs.beats beat -S tenure`, with what it needs as JSON in $BEATS.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from celery import Celery
from celery.schedules import schedule

from tenure.contrib.celery import Once
from tenure.contrib.celery.sending import OCCURRENCE, SENT
from tests.faults.support import Journal

given = json.loads(os.environ["BEATS"])
journal = Journal(Path(given["journal"]))

app = Celery("beats", broker=given["broker"], task_cls=Once)
app.conf.update(
    timezone="UTC",
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
    tenure_url=given["url"],
    tenure_options={"ttl": given["ttl"]},
    # Nothing may be left out, however long nobody leads.
    tenure_policies={"*": {"catch_up": "all", "catch_up_limit": 1_000}},
    # At whole seconds, so that one can aim at the moment just after.
    beat_schedule={
        f"s{number}": {"task": "note", "schedule": schedule(1.0, relative=True)}
        for number in range(given["schedules"])
    },
)


@app.task(name="note", bind=True)  # type: ignore[untyped-decorator]  # Celery has no types
def note(self: Any) -> None:
    headers = self.request.headers
    *_, name, _, nominal = json.loads(headers[OCCURRENCE])
    told = {"schedule": name, "nominal": nominal, "id": self.request.id, "sent": headers[SENT]}
    journal.write("executed", "worker", wall=time.time(), **told)
