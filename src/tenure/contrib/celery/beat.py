"""The scheduler of `celery beat -S tenure`.

Each beat is a node: one of them leads and fires what is due, and any of them sends. The store has
the name, the times and the policies of each entry, and no more: the beat that sends takes the rest
from its own `beat_schedule`. So arguments may be anything that Celery can send, and those that are
functions (`BeatLazyFunc`) are called when the message is made.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Thread
from typing import Any

from celery.beat import BeatLazyFunc
from celery.beat import Scheduler as CeleryScheduler

from tenure.backends.urls import shown
from tenure.contrib.celery.config import check_policies, make_scheduler, policy_of
from tenure.contrib.celery.once import marks
from tenure.contrib.celery.sending import send
from tenure.contrib.celery.triggers import trigger_of
from tenure.errors import ConfigError
from tenure.scheduler.scheduler import Scheduler
from tenure.tasks.run import Run

GRACE = 5.0
"""How long a beat that is stopped waits for messages that are being sent; others send them else."""
LOOK = 1.0
"""How long Celery sleeps at a time. A signal that comes just before a sleep is seen after it."""
_logger = logging.getLogger("celery.beat")


class BeatScheduler(CeleryScheduler):  # type: ignore[misc]  # Celery has no types
    """What `celery beat` makes twice: with `lazy`, only to show `info` in its banner."""

    def __init__(self, app: Any, *args: Any, **given: Any) -> None:
        self._tenure = make_scheduler(app)
        self._joining: Future[None] | None = None
        super().__init__(app, *args, **given)

    @property
    def info(self) -> str:
        where = f"{shown(self._tenure.url)}, namespace {self._tenure.namespace}"
        return f"    . store -> {where}"

    def setup_schedule(self) -> None:
        """Declare the entries of `beat_schedule`. Nothing is started yet: if a signal comes now,
        Celery makes a second scheduler to close it."""
        self.merge_inplace(self.app.conf.beat_schedule)
        self.install_default_entries(self.schedule)
        check_policies(self.app, self.schedule)
        declare(self._tenure, self.app, self.schedule.values())
        self._tenure.include(marks)

    def tick(self, *args: Any, **given: Any) -> float:
        """Join the others, the first time. From then on Tenure's own thread does the work."""
        if self._joining is None:
            self._joining = Future()
            Thread(target=self._join, args=(self._joining,), daemon=True).start()
        self._joining.result()
        return min(float(self.max_interval), LOOK)

    def _join(self, done: Future[None]) -> None:
        """On a thread of its own: a signal interrupts the main one wherever it is, and a start that
        was interrupted would still be leaving while `close` ends it."""
        try:
            self._tenure.start()
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            done.set_exception(error)
        else:
            done.set_result(None)

    def should_sync(self) -> bool:
        return False

    def close(self) -> None:
        """Hand over. Celery calls it twice: from its signal handler, and when `tick` has ended."""
        if self._joining is not None:
            wait([self._joining], GRACE)
            self._tenure.stop(GRACE)
        super().close()


def declare(scheduler: Scheduler, app: Any, entries: Any) -> None:
    """Declare these entries of a `beat_schedule` as schedules."""
    for entry in entries:
        trigger = trigger_of(entry.name, entry.schedule)
        policy = policy_of(app, entry.name, entry.schedule)
        try:
            scheduler.tasks.declare(
                _sender(app, scheduler.namespace, entry),
                trigger=trigger,
                name=entry.name,
                policy=policy,
            )
        except ConfigError as error:
            raise type(error)(f"beat_schedule[{entry.name!r}]: {error}") from error


def _sender(app: Any, namespace: str, entry: Any) -> Callable[[Run], str]:
    def send_message(run: Run) -> str:
        _logger.info("Scheduler: Sending due task %s (%s)", entry.name, entry.task)
        args = [_evaluated(value) for value in entry.args or ()]
        kwargs = {name: _evaluated(value) for name, value in (entry.kwargs or {}).items()}
        headers = {**(entry.options.get("headers") or {}), "celery_beat_task": True}
        options = {**entry.options, "headers": headers}
        return send(app, run, namespace, entry.task, args, kwargs, options)

    return send_message


def _evaluated(value: Any) -> Any:
    return value() if isinstance(value, BeatLazyFunc) else value
