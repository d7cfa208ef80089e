"""What `Scheduler` and `AsyncScheduler` have in common: everything but how one waits.

All coroutines here run on Tenure's own loop. The constructor does no I/O: connections are opened
when they are first needed, and again in a forked child.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, TypeVar

from tenure import joining
from tenure.address import Address
from tenure.backends.base import Backend, Joined, Joins, LeaseBackend
from tenure.catalog import Catalog
from tenure.changes import trigger_of
from tenure.clock import Clock, SystemClock
from tenure.declarations import collect
from tenure.edits import Drafts, Edits
from tenure.engine import Engine
from tenure.errors import ConfigError, StoreUnavailable
from tenure.execution import Executor, Wrapper
from tenure.facts import Fact, Facts, log
from tenure.model import Occurrence, RunRecord, Schedule
from tenure.node import Node
from tenure.settings import Settings
from tenure.startup import Stages
from tenure.stores import parse, parse_leases, resolve
from tenure.tasks import Tasks
from tenure.threads import Threads
from tenure.triggers import Explanation, moments, zones

T = TypeVar("T")
_inherited: list[LeaseBackend] = []


class Core:
    """One scheduler of one process."""

    def __init__(
        self,
        url: str | object | None,
        *,
        leases: str | object | None = None,
        namespace: str = "default",
        app: str = "default",
        tz: str | None = None,
        migrate: bool = True,
        settings: Settings | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.url = resolve(url)
        self.tz = zones.name(tz)
        self.namespace = namespace
        self.address = Address(self.url, namespace, leases if isinstance(leases, str) else None)
        self.app = app
        self.settings = settings or Settings()
        self.tasks = Tasks(self.tz)
        self.engine = Engine()
        self.node: Node | None = None
        self._clock = clock or SystemClock()
        limit = self.settings.transaction_limit
        self._make = parse(self.url, namespace, self._clock, limit)
        self._make_leases = (
            None if leases is None else parse_leases(leases, namespace, self._clock, limit)
        )
        self._migrate = migrate
        self._backend: Backend | None = None
        self._lease_backend: LeaseBackend | None = None
        self._opening: asyncio.Lock | None = None
        self._listeners: list[tuple[str, Callable[[Fact], None]]] = [("*", log)]
        self._wrapper: Wrapper | None = None
        self._pool: Threads | None = None
        self._own_loop: Engine | None = None
        self._telling: Threads | None = None
        self._stages = Stages(Facts())

    # -- connecting -------------------------------------------------------------------------------

    async def backend(self) -> Backend:
        """The open backend; opened now if it was not."""
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            stages = self._stages
            if self._backend is None:
                self._backend = await stages.open(self._make, migrate=self._migrate)
            if self._make_leases is not None and self._lease_backend is None:
                self._lease_backend = await stages.open(self._make_leases, migrate=self._migrate)
        return self._backend

    async def catalog(self) -> Catalog:
        backend = await self.backend()
        return Catalog(backend.schedules, self.tasks, self.settings, self.address)

    def forget_parent(self) -> None:
        """In a forked child: leave what was inherited to the parent, and begin anew."""
        if self.engine.forked:
            # Kept, so that nothing closes the parent's connections from here.
            _inherited.extend(
                kept for kept in (self._backend, self._lease_backend) if kept is not None
            )
            self.engine = Engine()
            self.node = self._backend = self._lease_backend = self._opening = None
            self._pool = self._own_loop = self._telling = None

    # -- life -------------------------------------------------------------------------------------

    async def start(self, user_loop: asyncio.AbstractEventLoop | None) -> None:
        """Connect, migrate, check the schedules of the code, campaign, serve: see startup.py."""
        if self.node is not None:
            raise ConfigError("this scheduler is running already. Call stop() before start().")
        if user_loop is not None and not user_loop.is_running():
            raise ConfigError("the event loop for async tasks is not running.")
        collect(
            self.tasks, self.settings, self.app
        )  # refuses what is wrong, before a store is made
        facts = self._tell(Threads("tenure-facts"))
        self._stages = Stages(facts)
        try:
            backend = await self.backend()
            node = self._compose(backend, facts, user_loop)
            with self._stages.stage("check"):
                await node.declarer.declare()
            with self._stages.stage("campaign"):
                self.node = node
                await node.start()
            self._stages.reached("serve")
        except BaseException:
            await self.stop(0.0)
            raise

    def _compose(
        self, backend: Backend, facts: Facts, user_loop: asyncio.AbstractEventLoop | None
    ) -> Node:
        self._pool = Threads("tenure-task", self.settings.concurrency or 1)
        executor = Executor(self._pool, lambda: user_loop or self._tasks_loop())
        executor.wrapper = self._wrapper
        leases: LeaseBackend = self._lease_backend or backend
        return Node(
            leases=leases.leases,
            schedules=backend.schedules,
            releases=backend.releases,
            runs=backend.runs,
            wakeups=backend.wakeups,
            lease_wakeups=leases.wakeups,
            tasks=self.tasks,
            execute=executor,
            settings=self.settings,
            clock=self._clock,
            facts=facts,
            app=self.app,
            location=backend.location,
            at=self.address,
        )

    async def stop(self, grace: float | None) -> None:
        node, self.node = self.node, None
        if node is not None:
            await node.stop(grace)
        await self.close()
        if self._telling is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._telling.call(lambda: None)  # let the last facts be heard
            self._telling.close()
            self._telling = None
        if self._own_loop is not None:
            self._own_loop.close()
            self._own_loop = None

    async def close(self) -> None:
        for backend in (self._lease_backend, self._backend):
            if backend is not None:
                await backend.close()
        self._lease_backend = self._backend = None
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def on(self, pattern: str, listener: Callable[[Fact], None]) -> None:
        self._listeners.append((pattern, listener))

    def wrap(self, wrapper: Wrapper) -> None:
        self._wrapper = wrapper

    def _tell(self, thread: Threads) -> Facts:
        # Listeners have a thread of their own: a slow log handler must not delay a heartbeat.
        self._telling = thread
        facts = Facts(defer=thread.submit)
        for pattern, listener in self._listeners:
            facts.on(pattern, listener)
        return facts

    def _tasks_loop(self) -> asyncio.AbstractEventLoop:
        """Where coroutines run when the application has no loop of its own."""
        if self._own_loop is None:
            self._own_loop = Engine("tenure-tasks-loop")
        return self._own_loop.loop

    # -- schedules and runs -----------------------------------------------------------------------

    @property
    def drafts(self) -> Drafts:
        return Drafts(self.tasks, self.settings, self.tz)

    def edits(self, stores: Backend | Joined) -> Edits:
        """What may be changed there."""
        catalog = Catalog(stores.schedules, self.tasks, self.settings, self.address)
        return Edits(stores.schedules, stores.runs, self.drafts, catalog)

    async def edit(self, work: Callable[[Edits], Coroutine[Any, Any, T]]) -> T:
        return await work(self.edits(await self.backend()))

    async def joins(self) -> Joins:
        """The store, for changes inside the user's transaction."""
        try:
            backend = await self.backend()
        except StoreUnavailable as error:
            raise StoreUnavailable(
                f"{error} If it is your own transaction that is in the way: the store has to be"
                " opened before it; start the scheduler, or run"
                f" `{self.address.command('migrate')}`, first."
            ) from error
        return await joining.ready(backend)

    async def get(self, name: str) -> Schedule:
        return await (await self.catalog()).get(name)

    async def preview(self, name: str, n: int) -> list[Explanation]:
        schedule, now = await self.get(name), await (await self.backend()).schedules.now()
        planned = schedule.next_nominal if schedule.active else None
        after = now if planned is None else planned - timedelta(microseconds=1)
        return trigger_of(schedule).preview(n, after, schedule.uid)

    async def explain(self, name: str, time: datetime | str) -> Explanation:
        schedule = await self.get(name)
        return trigger_of(schedule).explain(moments.read("time", time), schedule.uid)

    async def schedules(self, tenant: str | None, limit: int) -> list[Schedule]:
        return await (await self.backend()).schedules.all(tenant, limit)

    async def runs(self, schedule: str | None, state: str | None, limit: int) -> list[RunRecord]:
        return await (await self.backend()).runs.all(schedule, state, limit)

    async def occurrences(self, schedule: str, limit: int) -> list[Occurrence]:
        return await (await self.backend()).schedules.occurrences(schedule, limit)


def enabled() -> bool:
    """TENURE_ENABLED=0 starts nothing: for users' test suites."""
    return os.environ.get("TENURE_ENABLED", "1").lower() not in ("0", "false", "no", "off")
