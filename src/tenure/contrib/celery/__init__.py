"""Tenure for Celery. `celery -A proj beat -S tenure` is the whole of it for most.

beat.py        the scheduler of `celery beat`: each beat is a node, and sending is a task
triggers.py    Celery's schedules as triggers
sending.py     a run becomes a message, under an id that follows from its occurrence
once.py        workers execute a message that was sent twice once
including.py   Celery's tasks for any Tenure scheduler, without beat
"""

from __future__ import annotations

from tenure.contrib.celery.including import include
from tenure.contrib.celery.once import Once

__all__ = ["Once", "include"]
