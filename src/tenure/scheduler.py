"""`Scheduler` and `AsyncScheduler`: the same names, one blocks and one is awaited."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Self, TypeVar

from tenure import joining
from tenure.catalog import BACKFILL_LIMIT, UNCHANGED, stretch
from tenure.clock import Clock
from tenure.core import Core, enabled
from tenure.edits import Edits, Entries, NewSchedule
from tenure.errors import ConfigError
from tenure.execution import Wrapper
from tenure.facts import Fact
from tenure.model import Occurrence, RunRecord, Schedule
from tenure.settings import Settings
from tenure.signals import Signals
from tenure.tasks import Tasks
from tenure.triggers import Explanation, Trigger

T = TypeVar("T")


class _Declaring:
    """What both have: declaring tasks, listening to facts. Nothing here does I/O."""

    def __init__(
        self,
        url: str | object | None = None,
        *,
        leases: str | object | None = None,
        namespace: str = "default",
        app: str = "default",
        tz: str | None = None,
        ttl: float | None = None,
        concurrency: int | None = None,
        migrate: bool = True,
        settings: Settings | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Say which store, and how this node behaves.

        Args:
            url: sqlite:///file.db; unless given $TENURE_URL, else sqlite:///tenure.db. Or an
                SQLAlchemy engine, or a pool of psycopg, whose settings are taken.
            leases: another store for leases alone, such as redis://host, or a Redis client.
            namespace: separates clusters that share a store.
            app: whose code-declared schedules these are.
            tz: the time zone of triggers about local time that name none; UTC unless given.
            ttl: seconds after which a silent node is taken for dead, where nothing tells sooner.
            concurrency: how many runs this node executes at a time; 0 only schedules.
            migrate: create and upgrade the tables at start; False leaves that to
                `tenure migrate`.
            settings: all numbers at once, instead of ttl and concurrency.
        """
        given = {"ttl": ttl, "concurrency": concurrency}
        given = {name: value for name, value in given.items() if value is not None}
        if settings is not None and given:
            raise ConfigError(
                f"{' and '.join(given)} and settings= were both given: put it into the Settings."
            )
        settings = settings or Settings(**given)  # type: ignore[arg-type]
        self._core = Core(
            url,
            leases=leases,
            namespace=namespace,
            app=app,
            tz=tz,
            migrate=migrate,
            settings=settings,
            clock=clock,
        )
        self.tasks: Tasks = self._core.tasks
        self.task = self.tasks.task
        """Declare a task: `@scheduler.task`, or `@scheduler.task(every(seconds=10))`."""

    @property
    def url(self) -> str:
        return self._core.url

    @property
    def namespace(self) -> str:
        return self._core.namespace

    @property
    def tz(self) -> str | None:
        return self._core.tz

    @property
    def settings(self) -> Settings:
        return self._core.settings

    @property
    def running(self) -> bool:
        return self._core.node is not None and not self._core.engine.forked

    @property
    def is_leader(self) -> bool:
        """Does this process lead, at this instant?"""
        node = self._core.node
        return self.running and node is not None and node.is_leader

    @property
    def node(self) -> str | None:
        """This process's id in the cluster, while it runs."""
        node = self._core.node
        return node.id if self.running and node is not None else None

    def include(self, tasks: Tasks) -> None:
        """Take over tasks that were declared without a scheduler at hand."""
        self.tasks.include(tasks)

    def on(self, pattern: str, listener: Callable[[Fact], None]) -> None:
        """Call `listener` with facts, such as "run.failed" or "lease.*", from the next start on.

        It runs on a thread of its own; what it raises is logged and harms nothing.
        """
        self._core.on(pattern, listener)

    def around(self, wrapper: Wrapper) -> None:
        """Execute every task through `wrapper(call, run)`: for application contexts and the like.

        The wrapper returns what `call()` returns.
        """
        self._core.wrap(wrapper)


class Scheduler(_Declaring):
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
        connection: Any = None,
    ) -> list[datetime]:
        """Fire what was missed or skipped from `start` to `end`, both included: one run for each,
        in their order. Returns their nominal times; with `dry_run` nothing is changed."""
        start, end = stretch(start, end)
        return self._edit(
            connection, lambda edits: edits.backfill(name, start, end, limit, dry_run)
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

        The same `key` again gives the same run: for callers that may repeat themselves.
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


class AsyncScheduler(_Declaring):
    """A scheduler for asyncio programs: coroutine tasks run on the loop that starts it."""

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT, then hand over politely."""
        if not enabled():
            return
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ended.set)
        try:
            await self.start()
            await ended.wait()
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
            await self.stop()

    async def start(self) -> None:
        """Join the cluster, in the background. TENURE_ENABLED=0 makes it do nothing."""
        if not enabled():
            return
        self._core.forget_parent()
        await self._core.engine.call_async(self._core.start(asyncio.get_running_loop()))

    async def stop(self, grace: float | None = None) -> None:
        if self._core.engine.forked:
            return
        await self._core.engine.call_async(self._core.stop(grace))
        self._core.engine.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:
        """For FastAPI and Starlette: `FastAPI(lifespan=scheduler.lifespan)`."""
        async with self:
            yield

    async def add(
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
        new = NewSchedule(name, trigger, task=task, kwargs=kwargs, tenant=tenant, **policy)
        return await self._edit(connection, lambda edits: edits.add(new))

    async def add_many(self, entries: Entries, *, connection: Any = None) -> list[Schedule]:
        if connection is not None:
            return await self._edit(connection, lambda edits: edits.add_many(entries))
        now = await self._edit(None, Edits.now)
        planned = await asyncio.to_thread(self._core.drafts.additions, entries, now)
        return await self._edit(None, lambda edits: edits.land(planned))

    async def update(
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
        return await self._edit(
            connection,
            lambda edits: edits.update(
                name, trigger, task, kwargs, expected_version, {"tenant": tenant, **policy}
            ),
        )

    async def get(self, name: str) -> Schedule:
        return await self._call(self._core.get(name))

    async def preview(self, name: str, n: int = 5) -> list[Explanation]:
        return await self._call(self._core.preview(name, n))

    async def explain(self, name: str, time: datetime | str) -> Explanation:
        return await self._call(self._core.explain(name, time))

    async def schedules(self, tenant: str | None = None, limit: int = 1_000) -> list[Schedule]:
        return await self._call(self._core.schedules(tenant, limit))

    async def pause(
        self,
        name: str,
        reason: str | None = None,
        *,
        expected_version: int | None = None,
        connection: Any = None,
    ) -> Schedule:
        return await self._edit(
            connection, lambda edits: edits.pause(name, reason, expected_version)
        )

    async def resume(
        self,
        name: str,
        *,
        catch_up: bool = False,
        expected_version: int | None = None,
        connection: Any = None,
    ) -> Schedule:
        return await self._edit(
            connection, lambda edits: edits.resume(name, catch_up, expected_version)
        )

    async def backfill(
        self,
        name: str,
        start: datetime,
        end: datetime,
        *,
        limit: int = BACKFILL_LIMIT,
        dry_run: bool = False,
        connection: Any = None,
    ) -> list[datetime]:
        start, end = stretch(start, end)
        return await self._edit(
            connection, lambda edits: edits.backfill(name, start, end, limit, dry_run)
        )

    async def remove(
        self, name: str, *, expected_version: int | None = None, connection: Any = None
    ) -> None:
        await self._edit(connection, lambda edits: edits.remove(name, expected_version))

    async def run_now(
        self, name: str, key: str | None = None, *, connection: Any = None
    ) -> RunRecord | None:
        return await self._edit(connection, lambda edits: edits.run_now(name, key))

    async def runs(
        self, schedule: str | None = None, state: str | None = None, limit: int = 50
    ) -> list[RunRecord]:
        return await self._call(self._core.runs(schedule, state, limit))

    async def occurrences(self, schedule: str, limit: int = 50) -> list[Occurrence]:
        return await self._call(self._core.occurrences(schedule, limit))

    async def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        self._core.forget_parent()
        return await self._core.engine.call_async(coroutine)

    async def _edit(self, connection: Any, work: Callable[[Edits], Coroutine[Any, Any, T]]) -> T:
        core = self._core
        if connection is None:
            return await self._call(core.edit(work))
        return await joining.there(
            await self._call(core.joins()), connection, lambda joined: work(core.edits(joined))
        )
