"""`Scheduler`: for programs without an event loop, or with one that is nobody's business."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from typing import Any, Self, TypeVar

from tenure import joining
from tenure.catalog import BACKFILL_LIMIT, UNCHANGED, stretch
from tenure.core import enabled
from tenure.declaring import Declaring
from tenure.edits import Edits, Entries, NewSchedule
from tenure.errors import ConfigError
from tenure.model import Occurrence, RunRecord, Schedule
from tenure.signals import Signals
from tenure.triggers import Explanation, Trigger

T = TypeVar("T")


class Scheduler(Declaring):
    """A scheduler for programs without an event loop, or with one that is nobody's business."""

    def run(self) -> None:
        """Run until SIGTERM or SIGINT, then hand over politely. A second signal ends at once."""
        if not enabled():
            return
        if threading.current_thread() is not threading.main_thread():
            raise ConfigError(
                "run() handles signals, so it belongs to the main thread. Elsewhere use start()"
                " and stop(), or `with scheduler:`."
            )
        # Before the start: a signal during it must not be lost, nor end the process impolitely.
        with Signals() as signals:
            try:
                self.start()
                signals.wait()
            finally:
                self.stop()

    def start(self) -> None:
        """Join the cluster, in the background. TENURE_ENABLED=0 makes it do nothing."""
        if not enabled():
            return
        self._core.forget_parent()
        self._core.engine.call(self._core.start(None))

    def stop(self, grace: float | None = None) -> None:
        """Hand over, let running tasks end for `grace` seconds (30 by default), disconnect."""
        if self._core.engine.forked:
            return
        self._core.engine.call(self._core.stop(grace))
        self._core.engine.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def add(
        self,
        name: str,
        trigger: Trigger,
        *,
        task: str | Callable[..., Any],
        kwargs: Mapping[str, Any] | None = None,
        tenant: str | None = None,
        connection: Any = None,
        **policy: Any,
    ) -> Schedule:
        """Add a schedule at run time; `Conflict` if the name is taken.

        Here and below: `connection` makes it a part of your own transaction, on your psycopg,
        sqlite3 or SQLAlchemy connection or session to the scheduler's database.
        """
        new = NewSchedule(name, trigger, task=task, kwargs=kwargs, tenant=tenant, **policy)
        return self._edit(connection, lambda edits: edits.add(new))

    def add_many(self, entries: Entries, *, connection: Any = None) -> list[Schedule]:
        """Add many schedules, all or none: `NewSchedule`s, or dicts of the arguments of `add`."""
        if connection is not None:
            return self._edit(connection, lambda edits: edits.add_many(entries))
        # Checking and planning them is left to this thread: Tenure's own has heartbeats to send.
        now = self._edit(None, Edits.now)
        planned = self._core.drafts.additions(entries, now)
        return self._edit(None, lambda edits: edits.land(planned))

    def update(
        self,
        name: str,
        *,
        trigger: Trigger | None = None,
        task: str | Callable[..., Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        tenant: str | None = UNCHANGED,
        expected_version: int | None = None,
        connection: Any = None,
        **policy: Any,
    ) -> Schedule:
        """Change what is given. A new trigger begins a new plan; all else leaves it alone.

        Here and below: `expected_version` is the one you read; if it has another by now, nothing
        is changed and `Conflict` raised.
        """
        return self._edit(
            connection,
            lambda edits: edits.update(
                name, trigger, task, kwargs, expected_version, {"tenant": tenant, **policy}
            ),
        )

    def get(self, name: str) -> Schedule:
        return self._call(self._core.get(name))

    def preview(self, name: str, n: int = 5) -> list[Explanation]:
        """The next occurrences of a schedule, each with the rule that applied."""
        return self._call(self._core.preview(name, n))

    def explain(self, name: str, time: datetime | str) -> Explanation:
        """Is this time an occurrence of the schedule, and why? Without a zone it is local."""
        return self._call(self._core.explain(name, time))

    def schedules(self, tenant: str | None = None, limit: int = 1_000) -> list[Schedule]:
        return self._call(self._core.schedules(tenant, limit))

    def pause(
        self,
        name: str,
        reason: str | None = None,
        *,
        expected_version: int | None = None,
        connection: Any = None,
    ) -> Schedule:
        """Fire it no more, until it is resumed."""
        return self._edit(connection, lambda edits: edits.pause(name, reason, expected_version))

    def resume(
        self,
        name: str,
        *,
        catch_up: bool = False,
        expected_version: int | None = None,
        connection: Any = None,
    ) -> Schedule:
        """Go on from now, and record what came due meanwhile as missed; or, with `catch_up`, go on
        from where it stopped, as after an outage."""
        return self._edit(connection, lambda edits: edits.resume(name, catch_up, expected_version))

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
        """Fire what was missed or skipped from `start` to `end`, both included: one run for each,
        in their order. They are those that the trigger names as it is now, up to now, also from
        before the schedule existed. Returns their nominal times; with `dry_run` nothing is
        changed.

        Raises `BeyondHistory` if some of them may have been run, and their runs removed since.
        `beyond_history` fires them all the same.
        """
        start, end = stretch(start, end)
        return self._edit(
            connection,
            lambda edits: edits.backfill(name, start, end, limit, dry_run, beyond_history),
        )

    def remove(
        self, name: str, *, expected_version: int | None = None, connection: Any = None
    ) -> None:
        """Remove it and cancel its waiting runs. What happened stays on record."""
        self._edit(connection, lambda edits: edits.remove(name, expected_version))

    def run_now(
        self, name: str, key: str | None = None, *, connection: Any = None
    ) -> RunRecord | None:
        """Run it once, now, beside its plan. None: skipped, an earlier run is unfinished.

        The same `key` again gives the same run, for as long as that is on record (`retention`):
        for callers that may repeat themselves.
        """
        return self._edit(connection, lambda edits: edits.run_now(name, key))

    def runs(
        self, schedule: str | None = None, state: str | None = None, limit: int = 50
    ) -> list[RunRecord]:
        """Runs, newest first."""
        return self._call(self._core.runs(schedule, state, limit))

    def occurrences(self, schedule: str, limit: int = 50) -> list[Occurrence]:
        """What became of each occurrence, newest first: fired, skipped or missed, and why."""
        return self._call(self._core.occurrences(schedule, limit))

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        self._core.forget_parent()
        return self._core.engine.call(coroutine)

    def _edit(self, connection: Any, work: Callable[[Edits], Coroutine[Any, Any, T]]) -> T:
        core = self._core
        if connection is None:
            return self._call(core.edit(work))
        return joining.here(
            self._call(core.joins()), connection, lambda joined: work(core.edits(joined))
        )
