"""A worker that gets a message twice executes it once: `Celery("proj", task_cls=Once)`.

Tenure sends each occurrence at least once, under one id. It sends a second message if a beat ends
between sending the first and recording that. The first worker to ask the store leaves a mark there,
a run under the message's id, and the second message is ignored. A mark is kept as long as finished
runs are (`retention`).

For the message that came first Celery's own rules hold: its retries are executed, and so is what
the broker delivers again because a worker died. Messages that Tenure did not send are left alone.
"""

from __future__ import annotations

import logging
import os
from functools import lru_cache
from typing import Any

from celery import Task
from celery.exceptions import Ignore

from tenure.contrib.celery.config import make_scheduler
from tenure.contrib.celery.sending import SENT
from tenure.errors import StoreUnavailable
from tenure.process.clock import SystemClock
from tenure.scheduler.scheduler import Scheduler
from tenure.tasks.registry import Tasks

MARK = "celery.once"
AGAIN = 1.0
_AFTER_ALL_ELSE = -1_000
_logger = logging.getLogger("tenure.celery")

marks = Tasks()
"""What a mark is to the nodes that find it: a run without work."""


@marks.task(name=MARK, keep_result=False, priority=_AFTER_ALL_ELSE)
def _mark(sent: str) -> None:
    del sent


class Once(Task):  # type: ignore[misc]  # Celery has no types
    """A task whose repeated messages are ignored. If your own class has `before_start`, let it call
    that of this one first."""

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
        sent = (self.request.headers or {}).get(SENT)
        if sent and not _is_first(self.app, task_id, sent):
            _logger.warning("task %s[%s] was sent twice: ignored", self.name, task_id)
            raise Ignore
        super().before_start(task_id, args, kwargs)


def _is_first(app: Any, task_id: str, sent: str) -> bool:
    """Whether this message is the first of its id. A store that is away is waited for: without it
    the answer would be a guess, and either one may be wrong."""
    told = False
    while True:
        try:
            mark = _store(app, os.getpid()).enqueue(MARK, key=task_id, kwargs={"sent": sent})
        except StoreUnavailable as error:
            if not told:
                _logger.warning("task %s waits for Tenure's store: %s", task_id, error)
                told = True
            SystemClock().block(AGAIN)
        else:
            return bool(mark.kwargs.get("sent") == sent)


@lru_cache(maxsize=16)
def _store(app: Any, pid: int) -> Scheduler:
    """Of this process: a forked one must not use its parent's connections."""
    del pid
    scheduler = make_scheduler(app)
    scheduler.include(marks)
    return scheduler
