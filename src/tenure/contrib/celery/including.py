"""Celery's tasks as tasks of a Tenure scheduler, without beat.

    scheduler = Scheduler("postgresql://db.example/shop")
    include(scheduler, app)
    scheduler.add("digest", cron("0 7 * * *"), task="shop.tasks.digest", kwargs={"user": 1})

A run of such a task sends its message; Celery's workers execute it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tenure.contrib.celery.once import marks
from tenure.contrib.celery.sending import send
from tenure.scheduler.base import BaseScheduler
from tenure.tasks.registry import Tasks
from tenure.tasks.run import Run

_RUN = "tenure_run"
_OWN = "celery."
"""How the names of Celery's own tasks begin."""


def include(scheduler: BaseScheduler, app: Any) -> None:
    """Let schedules of this scheduler send the tasks of a Celery application, by their names."""
    app.loader.import_default_modules()
    app.finalize()
    tasks = Tasks()
    for name, task in sorted(app.tasks.items()):
        if not name.startswith(_OWN):
            tasks.declare(_sender(app, scheduler.namespace, task), name=name)
    tasks.include(marks)
    scheduler.include(tasks)


def _sender(app: Any, namespace: str, task: Any) -> Callable[..., str]:
    def send_message(*, tenure_run: Run, **kwargs: Any) -> str:
        return send(app, tenure_run, namespace, task.name, (), kwargs, {})

    # With the parameters of the task, so that arguments it does not take are refused when a
    # schedule is added.
    own = inspect.signature(task.run)
    shown = list(own.parameters.values())
    keywords = bool(shown) and shown[-1].kind is inspect.Parameter.VAR_KEYWORD
    filled = inspect.Parameter(_RUN, inspect.Parameter.KEYWORD_ONLY, annotation=Run)
    shown.insert(len(shown) - keywords, filled)
    send_message.__signature__ = own.replace(parameters=shown)  # type: ignore[attr-defined]
    return send_message
