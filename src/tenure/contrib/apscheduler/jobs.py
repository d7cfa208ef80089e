"""The jobs of an APScheduler 3 scheduler, read without restoring them.

A job store that is started restores its jobs, and deletes the rows that it cannot restore. So the
stores are not started: what they have stored is selected and unpickled as the plain dict that it
is. Jobs that were only added in code are taken from the scheduler itself.
"""

from __future__ import annotations

import pickle  # noqa: TID251 - APScheduler stores its jobs so; there is no other way to read them
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.base import BaseScheduler
from apscheduler.util import undefined

from tenure.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Job:
    """What is known of a job; or only its id, and why no more is."""

    id: str
    func: str | None = None
    """As `module:name`; None for a function that has no such path."""
    trigger: Any = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] | None = None
    coalesce: bool = True
    misfire_grace_time: float | None = 1
    max_instances: int = 1
    paused: bool = False
    unreadable: str | None = None


def own_scheduler(given: Any) -> Any:
    """APScheduler's own; of Flask-APScheduler, and others that wrap one, what they have as
    `scheduler`."""
    for found in (given, getattr(given, "scheduler", None)):
        if isinstance(found, BaseScheduler):
            return found
    raise ConfigError(f"{given!r} is not a scheduler of APScheduler 3.")


def read_jobs(scheduler: Any) -> list[Job]:
    """All its jobs, those of its job stores included. Nothing is written, started or restored."""
    scheduler = own_scheduler(scheduler)
    if scheduler.running:
        raise ConfigError(
            "this APScheduler is running, and its jobs may change meanwhile: give one that was not"
            " started, such as by keeping start() out of the module that makes it."
        )
    defaults = scheduler._job_defaults
    found = {job.id: _of_object(job, defaults) for job, _, _ in scheduler._pending_jobs}
    for store in scheduler._jobstores.values():
        for job in _stored(store):
            found.setdefault(job.id, job)
    return list(found.values())


def _of_object(job: Any, defaults: dict[str, Any]) -> Job:
    def said(name: str) -> Any:
        value = getattr(job, name, undefined)
        return defaults.get(name) if value is undefined else value

    # A job that was only added has no time yet; next_run_time=None pauses it.
    paused = hasattr(job, "next_run_time") and job.next_run_time is None
    return Job(
        id=job.id,
        func=job.func_ref,
        trigger=job.trigger,
        args=tuple(job.args),
        kwargs=dict(job.kwargs),
        coalesce=bool(said("coalesce")),
        misfire_grace_time=said("misfire_grace_time"),
        max_instances=said("max_instances"),
        paused=paused,
    )


def _stored(store: Any) -> Iterator[Job]:
    if isinstance(store, MemoryJobStore):
        return
    kind = type(store).__name__
    if kind == "SQLAlchemyJobStore":
        yield from _from_sqlalchemy(store)
    elif kind == "RedisJobStore":
        for key, state in store.redis.hgetall(store.jobs_key).items():
            yield _of_state(key.decode(), state)
    else:
        raise ConfigError(
            f"the jobs of a {kind} cannot be read without starting it, and then it may delete what"
            " it cannot restore. Add these jobs to a scheduler without job stores, and give that."
        )


def _from_sqlalchemy(store: Any) -> Iterator[Job]:
    from sqlalchemy import inspect, select

    file = store.engine.url.database
    if store.engine.dialect.name == "sqlite" and file and not Path(file).exists():
        raise ConfigError(f"the job store {file} does not exist.")
    if not inspect(store.engine).has_table(store.jobs_t.name, schema=store.jobs_t.schema):
        return
    table = store.jobs_t
    wanted = select(table.c.id, table.c.job_state).order_by(table.c.id)
    with store.engine.connect() as connection:
        rows = connection.execute(wanted).all()
    for name, state in rows:
        yield _of_state(name, state)


def _of_state(name: str, state: bytes) -> Job:
    try:
        # It was pickled by the application itself, and is read by its own code.
        stored = pickle.loads(state)  # noqa: S301
        following: datetime | None = stored.get("next_run_time")
        return Job(
            id=name,
            func=stored["func"],
            trigger=stored["trigger"],
            args=tuple(stored["args"]),
            kwargs=dict(stored["kwargs"]),
            coalesce=bool(stored["coalesce"]),
            misfire_grace_time=stored["misfire_grace_time"],
            max_instances=stored["max_instances"],
            paused=following is None,
        )
    except Exception as error:  # noqa: BLE001 - unpickling runs whatever code was pickled
        return Job(name, unreadable=f"its row cannot be read: {type(error).__name__}: {error}")
