"""`Scheduler`: for programs without an event loop, or with one that Tenure should not use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from typing import Any, Self, TypeVar, overload

from tenure.errors import ConfigError
from tenure.model import Attempt, Event, EventGroup, Occurrence, RunRecord, Schedule
from tenure.process.garbage import leave_out_what_stays
from tenure.process.signals import Signals
from tenure.scheduler import transaction
from tenure.scheduler.base import BaseScheduler
from tenure.scheduler.consumer import Consumer
from tenure.scheduler.group_membership import IDLE
from tenure.scheduler.runtime import enabled
from tenure.schedules.drafts import UNCHANGED, Entries, NewSchedule
from tenure.schedules.editor import BACKFILL_LIMIT, Editor, stretch
from tenure.tasks.event_checks import emission
from tenure.triggers import Explanation, Trigger

T = TypeVar("T")
D = TypeVar("D")
INTERRUPTED = 130
"""The exit code of a process that was told to end at once."""


class Scheduler(BaseScheduler):
    """A scheduler for programs without an event loop, or with one that Tenure should not use."""

    def run(self) -> None:
        """Run until SIGTERM or SIGINT, then hand over. A second signal ends the process at once."""
        if not enabled():
            return
        if threading.current_thread() is not threading.main_thread():
            raise ConfigError(
                "run() handles signals, so it belongs to the main thread. Elsewhere use start()"
                " and stop(), or `with scheduler:`."
            )
        self._runtime.alone = True
        # Before the start: a signal during it must not be lost, nor end the process impolitely.
        with Signals() as signals:
            try:
                try:
                    self.start()
                    leave_out_what_stays()
                    signals.wait()
                finally:
                    self.stop()
            except KeyboardInterrupt:  # the second one: it wants an end, not a traceback
                raise SystemExit(INTERRUPTED) from None

    def start(self) -> None:
        """Join the cluster, in the background. With TENURE_ENABLED=0 this does nothing."""
        if not enabled():
            return
        self._runtime.forget_parent()
        self._runtime.thread.call(self._runtime.start(None))

    def stop(self, grace: float | None = None) -> None:
        """Hand over, give running tasks `grace` seconds to end (30 by default), disconnect."""
        if self._runtime.thread.forked:
            return
        self._runtime.thread.call(self._runtime.stop(grace))
        self._runtime.thread.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def add(
        self,
        name: str,
        trigger: Trigger | str,
        *,
        task: str | Callable[..., Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        emit: Event | None = None,
        tenant: str | None = None,
        connection: Any = None,
        **policy: Any,
    ) -> Schedule:
        """Add a schedule at run time: of a `task`, or of an event to `emit` each time. `Conflict`
        if the name is taken. The trigger may be text, such as "every 5m" or "0 7 * * *".

        Here and below: `connection` makes the change part of your own transaction, on your psycopg,
        sqlite3 or SQLAlchemy connection or session to the scheduler's database.
        """
        new = NewSchedule(
            name, trigger, task=task, kwargs=kwargs, emit=emit, tenant=tenant, **policy
        )
        return self._edit(connection, lambda editor: editor.add(new))

    def put(
        self,
        name: str,
        trigger: Trigger | str,
        *,
        task: str | Callable[..., Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        emit: Event | None = None,
        tenant: str | None = None,
        connection: Any = None,
        **policy: Any,
    ) -> tuple[Schedule, bool]:
        """Add a schedule, or make the one of that name what you say: what you leave out gets its
        default. Returns the schedule, and whether it is new.

        You may repeat it at every start, in every process: if nothing changed, nothing is stored,
        and an interval does not begin to count again. A paused schedule stays paused.
        """
        new = NewSchedule(
            name, trigger, task=task, kwargs=kwargs, emit=emit, tenant=tenant, **policy
        )
        return self._edit(connection, lambda editor: editor.put(new))

    def add_many(self, entries: Entries, *, connection: Any = None) -> list[Schedule]:
        """Add many schedules, all or none: `NewSchedule`s, or dicts of the arguments of `add`."""
        if connection is not None:
            return self._edit(connection, lambda editor: editor.add_many(entries))
        # Checking and planning them is left to this thread: Tenure's own has heartbeats to send.
        now = self._edit(None, Editor.now)
        planned = self._runtime.drafts.additions(entries, now)
        return self._edit(None, lambda editor: editor.land(planned))

    def update(
        self,
        name: str,
        *,
        trigger: Trigger | str | None = None,
        task: str | Callable[..., Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        emit: Event | None = None,
        tenant: str | None = UNCHANGED,
        expected_version: int | None = None,
        connection: Any = None,
        **policy: Any,
    ) -> Schedule:
        """Change what you pass. A new trigger begins a new plan; other changes keep the plan.

        Here and below: `expected_version` is the version you read. If it has changed since, nothing
        is changed and `Conflict` is raised.
        """
        return self._edit(
            connection,
            lambda editor: editor.update(
                name,
                trigger=trigger,
                task=task,
                kwargs=kwargs,
                emit=emit,
                tenant=tenant,
                expected_version=expected_version,
                **policy,
            ),
        )

    def rename(
        self, name: str, to: str, *, expected_version: int | None = None, connection: Any = None
    ) -> Schedule:
        """Give it another name; `Conflict` if that is taken. Its plan, its history and its runs
        stay with it."""
        return self._edit(connection, lambda editor: editor.rename(name, to, expected_version))

    @overload
    def get(self, name: str) -> Schedule: ...
    @overload
    def get(self, name: str, default: D) -> Schedule | D: ...

    def get(self, name: str, default: Any = UNCHANGED) -> Any:
        """The schedule of that name. If there is none, `default`; without one, `NotFound`."""
        return self._call(self._runtime.get(name, default))

    def preview(self, name: str, n: int = 5) -> list[Explanation]:
        """The next occurrences of a schedule, each with the rule that applied."""
        return self._call(self._runtime.preview(name, n))

    def explain(self, name: str, time: datetime | str) -> Explanation:
        """Whether this time is an occurrence, and why. Without a zone it is local."""
        return self._call(self._runtime.explain(name, time))

    def schedules(
        self, tenant: str | None = None, limit: int = 1_000, *, ended: bool = False
    ) -> list[Schedule]:
        """Schedules by name. One that has ended is listed while its history is kept
        (`retention`); `ended` also lists those that code declares, for ever."""
        return self._call(self._runtime.schedules(tenant, limit, ended))

    def pause(
        self,
        name: str,
        reason: str | None = None,
        *,
        expected_version: int | None = None,
        connection: Any = None,
    ) -> Schedule:
        """Stop firing it until it is resumed. If it is paused already, a reason replaces the one
        that it has."""
        return self._edit(connection, lambda editor: editor.pause(name, reason, expected_version))

    def resume(
        self,
        name: str,
        *,
        catch_up: bool = False,
        expected_version: int | None = None,
        connection: Any = None,
    ) -> Schedule:
        """Continue from now, and record what came due meanwhile as missed. With `catch_up`,
        continue from where it stopped, as after an outage."""
        return self._edit(
            connection,
            lambda editor: editor.resume(
                name, catch_up=catch_up, expected_version=expected_version
            ),
        )

    def backfill(
        self,
        name: str,
        start: datetime,
        end: datetime,
        *,
        limit: int = BACKFILL_LIMIT,
        dry_run: bool = False,
        beyond_history: bool = False,
        connection: Any = None,
    ) -> list[datetime]:
        """Run what was missed or skipped from `start` to `end`, both included: one run for each, in
        order. The times are those of the current trigger, up to now, and may be from before the
        schedule existed. Returns their nominal times; with `dry_run` nothing is changed.

        Raises `BeyondHistory` if some of them may have been run, and their runs deleted since.
        With `beyond_history` they are run anyway.
        """
        start, end = stretch(start, end)
        return self._edit(
            connection,
            lambda editor: editor.backfill(
                name, start, end, limit=limit, dry_run=dry_run, beyond_history=beyond_history
            ),
        )

    def remove(
        self, name: str, *, expected_version: int | None = None, connection: Any = None
    ) -> None:
        """Remove it and cancel its waiting runs. What happened stays on record."""
        self._edit(connection, lambda editor: editor.remove(name, expected_version))

    def run_now(
        self, name: str, key: str | None = None, *, connection: Any = None
    ) -> RunRecord | None:
        """Run it once, now, outside its plan. None if skipped: an earlier run is unfinished.

        The same `key` returns the same run for as long as that is kept (`retention`), so you can
        safely repeat the call.
        """
        return self._edit(connection, lambda editor: editor.run_now(name, key))

    def enqueue(
        self,
        task: str | Callable[..., Any],
        /,
        *,
        kwargs: Mapping[str, Any] | None = None,
        at: datetime | None = None,
        delay: float | None = None,
        key: str | None = None,
        tenant: str | None = None,
        connection: Any = None,
        **policy: Any,
    ) -> RunRecord:
        """Run a task once, without a schedule: now, `at` a time, or in `delay` seconds.

        `policy` is any of lock, priority, timeout, retries and on_crash; what you leave out is as
        the task was declared. The same `key` of the same task returns the same run for as long as
        that is kept (`retention`), so you can safely repeat the call.
        """
        new = self._runtime.drafts.run(
            task, kwargs=kwargs, at=at, delay=delay, key=key, tenant=tenant, **policy
        )
        return self._edit(connection, lambda editor: editor.enqueue(new))

    def emit(self, event: Event, *, id: str | None = None, connection: Any = None) -> str:  # noqa: A002
        """Emit an event, now. Returns its id.

        Give an `id` of your own to be able to repeat the call safely: while the log has an event
        with that id, the repetition changes nothing. `InvalidEvent` if it cannot be stored.
        """
        new = emission(event, id, self.settings.event_limit)
        self._edit(connection, lambda editor: editor.emit(new))
        return new.id

    def consumer(
        self,
        topic: str,
        *,
        group: str,
        limit: int = 100,
        from_now: bool = False,
        wait: float | None = None,
        transaction_idle: float = IDLE,
    ) -> Consumer:
        """Read a topic as one of a group's consumers: each event once, in your own transaction.

        `with scheduler.consumer("ledger", group="billing") as consumer: for batch in consumer:
        with batch.transaction() as connection: …`. The group is made when it is first used; it
        begins with the oldest event that is kept, or with those to come if `from_now`. `limit`
        is how many events a batch has at most. The loop ends after `wait` seconds without an event;
        by default it waits for ever. On a server, a transaction ends if it does nothing for
        `transaction_idle` seconds.
        """
        following = self._runtime.following(
            topic,
            group,
            limit=limit,
            from_now=from_now,
            wait=wait,
            transaction_idle=transaction_idle,
        )
        return Consumer(self._runtime, following)

    def replay(
        self,
        topic: str,
        *,
        group: str,
        after: int | None = None,
        since: datetime | None = None,
        connection: Any = None,
    ) -> EventGroup:
        """Let a group read events again, or leave some out: it goes on `after` a position (0: all
        that is kept), or with what was stored `since` a time. `Conflict` if the log has not come to
        that position, `NotFound` if there is no such group. Its consumers may be running."""
        return self._edit(connection, lambda editor: editor.replay(topic, group, after, since))

    def cancel(self, run: RunRecord | int) -> RunRecord:
        """Cancel a run. One that waits never begins. One that is being executed is told: a
        coroutine is cancelled, a plain function sees `run.cancelled`. `Conflict` if it has ended.

        Returns the run as it is then: `cancelled`, or still `claimed` until its node has ended it.
        """
        return self._call(self._runtime.cancel(run))

    def retry(self, run: RunRecord | int, *, even_succeeded: bool = False) -> RunRecord:
        """Let a run that failed, was lost or was cancelled wait again, due now: the same run, with
        all of its retries. `Conflict` if it waits or is executed; or if it has succeeded, unless
        `even_succeeded` insists."""
        return self._call(self._runtime.retry(run, even_succeeded=even_succeeded))

    def result(self, run: RunRecord | int, timeout: float | None = None) -> Any:
        """Wait for a run's end, for at most `timeout` seconds, and return what its task
        returned. Otherwise `NoResult`: `TaskFailed`, `TaskCancelled`, `ResultNotKept` or
        `ResultTimeout`."""
        return self._call(self._runtime.result(run, timeout))

    def get_run(self, run: RunRecord | int) -> RunRecord:
        """A run as it is now. `NotFound` if there is none of this number."""
        return self._call(self._runtime.get_run(run))

    def attempts(self, run: RunRecord | int) -> list[Attempt]:
        """The attempts of a run that did not succeed, or that have told something with `run.log`
        and `run.progress`, in their order. `NotFound` if there is no such run."""
        return self._call(self._runtime.attempts(run))

    def runs(
        self,
        schedule: str | None = None,
        state: str | None = None,
        limit: int = 50,
        *,
        task: str | Callable[..., Any] | None = None,
    ) -> list[RunRecord]:
        """Runs, newest first: of this schedule, in this state, of this task (function or name).
        `NotFound` if there is no such schedule, and no run of it."""
        return self._call(self._runtime.runs(schedule, state, limit, task))

    def occurrences(self, schedule: str, limit: int = 50) -> list[Occurrence]:
        """What became of each occurrence, newest first: fired, skipped or missed, and why.
        `NotFound` if there is no such schedule."""
        return self._call(self._runtime.occurrences(schedule, limit))

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        self._runtime.forget_parent()
        return self._runtime.thread.call(coroutine)

    def _edit(self, connection: Any, work: Callable[[Editor], Coroutine[Any, Any, T]]) -> T:
        runtime = self._runtime
        if connection is None:
            return self._call(runtime.edit(work))
        return transaction.here(
            self._call(runtime.joins()), connection, lambda joined: work(runtime.editor(joined))
        )
