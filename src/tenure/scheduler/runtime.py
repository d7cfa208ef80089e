"""What `Scheduler` and `AsyncScheduler` have in common: everything but how one waits.

All coroutines here run on Tenure's own loop. The constructor does no I/O: connections are opened
when they are first needed, and again in a forked child.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from tenure.backends.address import Address
from tenure.backends.base import (
    Backend,
    Joined,
    Joins,
    KnowsRoles,
    LeaseBackend,
    Stores,
)
from tenure.backends.registry import parse, parse_leases, resolve
from tenure.errors import ConfigError, StoreUnavailable
from tenure.events.relay import Relay, check_relays
from tenure.events.sinks.base import Sink
from tenure.facts import Fact, Facts, log
from tenure.model import Attempt, Occurrence, RunRecord, Schedule
from tenure.node.names import PRESENCE
from tenure.node.node import Node
from tenure.node.service import Surroundings
from tenure.node.stages import Stages, own_stage
from tenure.process.clock import Clock, SystemClock
from tenure.process.loop_thread import LoopThread
from tenure.process.threads import Threads
from tenure.process.worker_count import check_workers
from tenure.scheduler import transaction
from tenure.scheduler.claims import TransactionClaims
from tenure.scheduler.consumer_places import ConsumerPlaces
from tenure.scheduler.execution import Execution
from tenure.scheduler.group_membership import Following
from tenure.scheduler.lending import check_lending
from tenure.scheduler.observers import Observers, Subject
from tenure.scheduler.role import check_role
from tenure.scheduler.task_locations import homes
from tenure.scheduler.unknown_names import Mistyped
from tenure.schedules.changes import trigger_of
from tenure.schedules.control import RunControl, chosen_runs
from tenure.schedules.declarations import collect
from tenure.schedules.drafts import UNCHANGED, Drafts
from tenure.schedules.editor import Editor
from tenure.settings import Settings
from tenure.tasks.arguments import run_number, seconds
from tenure.tasks.executor import Wrapper
from tenure.tasks.registry import Tasks
from tenure.triggers import Explanation, moments, zones

T = TypeVar("T")
_inherited: list[object] = []


class Runtime:
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
        workers_env: str | None = None,
        clock: Clock | None = None,
        relays: Sequence[Relay] = (),
        policies: Mapping[str, Any] | None = None,
    ) -> None:
        self.url = resolve(url)
        self._store = url
        """As it was handed in: an engine lends its connections to transactional tasks."""
        self.tz = zones.name(tz)
        self.namespace = namespace
        self.address = Address(self.url, namespace, leases if isinstance(leases, str) else None)
        self.app = app
        self.settings = settings or Settings()
        self.tasks = Tasks(self.tz, policies=policies)
        self.consumers = ConsumerPlaces(self.settings.lent)
        self.thread = LoopThread()
        self.node: Node | None = None
        self._clock = clock or SystemClock()
        limit = self.settings.transaction_limit
        self._make = parse(self.url, namespace, self._clock, limit)
        self._make_leases = (
            None if leases is None else parse_leases(leases, namespace, self._clock, limit)
        )
        self._migrate = migrate
        self._workers_env = workers_env
        self._backend: Backend | None = None
        self._lease_backend: LeaseBackend | None = None
        self._opening: asyncio.Lock | None = None
        self._stopping: asyncio.Lock | None = None
        self._listeners: list[tuple[str, Callable[[Fact], None]]] = [("*", log)]
        self._wrappers = self.tasks.wrappers
        self._execution: Execution | None = None
        self._telling: Threads | None = None
        self._stages = Stages(Facts())
        self.relays = check_relays(relays)
        self._sinks: list[Sink] = []
        self.observers = Observers()
        self.alone = False
        """Does this process only run the node?"""
        self._mistyped = Mistyped(namespace, self.tasks)

    # -- connecting -------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Is the store open, in this process?"""
        return self._backend is not None and not self.thread.forked

    def move(self, url: str) -> None:
        """To another store, before one is open: the tests of an application have their own."""
        if url != self.url:
            self.url = self._store = url
            self.address = replace(self.address, url=url)
            limit = self.settings.transaction_limit
            self._make = parse(url, self.namespace, self._clock, limit)

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

    def _backends(self) -> list[LeaseBackend]:
        """Those that are open."""
        both: tuple[LeaseBackend | None, ...] = (self._backend, self._lease_backend)
        return [backend for backend in both if backend is not None]

    def forget_parent(self) -> None:
        """In a forked child: leave what was inherited to the parent, and start over."""
        if self.thread.forked:
            # Kept, so that nothing closes the parent's connections from here.
            _inherited.extend([*self._backends(), self.consumers])
            self.consumers = ConsumerPlaces(self.settings.lent)
            self.thread = LoopThread()
            self.node = self._backend = self._lease_backend = None
            self._opening = self._stopping = None
            self._execution = self._telling = None
            self.observers.forget()

    # -- life -------------------------------------------------------------------------------------

    async def start(self, user_loop: asyncio.AbstractEventLoop | None) -> None:
        """The stages of node/stages.py, one after the other."""
        if self.node is not None:
            raise ConfigError("this scheduler is already running. Call stop() before start().")
        if user_loop is not None and not user_loop.is_running():
            raise ConfigError("the event loop for async tasks is not running.")
        # All refuse what is wrong, before a store is opened.
        check_role(self.settings, self.tasks, self.relays)
        collect(self.tasks, self.settings, self.app)
        check_lending(self.tasks, self.settings, self._make, self._wrappers, self._store)
        homes(self.tasks)
        self._sinks = [relay.sink(self._clock) for relay in self.relays]
        facts = self._tell(Threads("tenure-facts"))
        self._stages = Stages(facts)
        around = Surroundings(self._clock, facts, self.settings)
        try:
            about = self.namespace, self.app, self.tasks, self.alone
            self.observers.starting(Subject(around, *about))
            with self._stages.stage("workers"):
                if self._workers_env is not None:
                    check_workers(self._workers_env)
            backend = await self.backend()
            claims = TransactionClaims(backend)
            await claims.ready()
            node = self._compose(backend, around, user_loop, claims)
            with self._stages.stage("check"):
                for opened in self._backends():
                    if isinstance(opened, KnowsRoles):
                        await opened.check_rights()
                await node.rollout.declare()
            with self._stages.stage("campaign"):
                self.node = node
                await node.start()
            self.observers.joined(node, self._backends())
            self._stages.reached("serve")
        except BaseException:
            await self.stop(0.0)
            raise

    def _compose(
        self,
        backend: Backend,
        around: Surroundings,
        user_loop: asyncio.AbstractEventLoop | None,
        claims: TransactionClaims,
    ) -> Node:
        execution = Execution(self.tasks, self.settings, self._wrappers, user_loop)
        self._execution = execution
        execution.join(backend, self._store, claims)
        return Node(
            self.observers.stores(Stores.of(backend, self._lease_backend)),
            around,
            self.tasks,
            execution.executor,
            app=self.app,
            location=backend.location,
            at=self.address,
            off_loop=execution.planning.call,
            relays=list(zip(self.relays, self._sinks, strict=True)),
            tells_more=True,
        )

    async def stop(self, grace: float | None) -> None:
        """A second call, such as that of a signal that comes twice, waits for the first."""
        stopping = self._stopping = self._stopping or asyncio.Lock()
        async with stopping:
            await self._stop(grace)
        self._opening = self._stopping = None  # they belong to a loop that may end now

    async def _stop(self, grace: float | None) -> None:
        node, self.node = self.node, None
        await self.observers.leaving()
        if node is not None:
            await node.stop(grace)
        await self.close()
        if self._telling is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._telling.call(lambda: None)  # let the last facts be heard
            self._telling.close()
            self._telling = None
        if self._execution is not None:
            self._execution.close_loop()
            self._execution = None
        self.observers.stopped()

    async def close(self) -> None:
        if self._execution is not None:
            self._execution.stop_lending()
        for backend in (self._lease_backend, self._backend):
            if backend is not None:
                await backend.close()
        self._lease_backend = self._backend = None
        if self._execution is not None:
            self._execution.close()

    def on(self, pattern: str, listener: Callable[[Fact], None]) -> None:
        self._listeners.append((pattern, listener))

    def stage(self, name: str) -> AbstractContextManager[None]:
        """A stage of the application's own, told on the calling thread."""
        facts = Facts()
        for pattern, listener in self._listeners:
            facts.on(pattern, listener)
        return Stages(facts).stage(own_stage(name))

    def wrap(self, wrapper: Wrapper) -> None:
        self._wrappers.append(wrapper)

    def _tell(self, thread: Threads) -> Facts:
        # Listeners have a thread of their own: a slow log handler must not delay a heartbeat.
        self._telling = thread
        facts = Facts(defer=thread.submit_or_do)
        for pattern, listener in self._listeners:
            facts.on(pattern, listener)
        return facts

    # -- schedules and runs -----------------------------------------------------------------------

    @property
    def drafts(self) -> Drafts:
        return Drafts(self.tasks, self.settings, self.tz)

    def editor(self, stores: Backend | Joined) -> Editor:
        return Editor(stores, self.drafts, self.address)

    async def edit(self, work: Callable[[Editor], Coroutine[Any, Any, T]]) -> T:
        return await work(self.editor(await self.backend()))

    async def _control(self) -> RunControl:
        return RunControl(await self.backend(), self.address)

    async def cancel(self, run: RunRecord | int) -> RunRecord:
        run_id = run_number(run)
        return await (await self._control()).cancel(run_id)

    async def retry(self, run: RunRecord | int, *, even_succeeded: bool) -> RunRecord:
        run_id = run_number(run)
        if not isinstance(even_succeeded, bool):
            raise ConfigError(f"even_succeeded={even_succeeded!r} is neither True nor False.")
        return await (await self._control()).retry(run_id, even_succeeded=even_succeeded)

    async def result(self, run: RunRecord | int, timeout: float | None) -> Any:
        run_id = run_number(run)
        if timeout is not None:
            timeout = seconds("timeout", timeout, zero=True)
        control = await self._control()
        return await control.result(run_id, timeout, self._clock, self._lives)

    async def _lives(self, node: str) -> bool | None:
        backend = self._lease_backend or await self.backend()
        presence = await backend.leases.read(PRESENCE + node)
        return None if presence is None else presence.live

    def following(self, topic: str, group: str, **options: Any) -> Following:
        return Following(topic, group, self._clock, **options)

    async def joins(self) -> Joins:
        """The store, for changes inside the user's transaction."""
        try:
            backend = await self.backend()
        except StoreUnavailable as error:
            raise StoreUnavailable(
                f"{error} If your own transaction is in the way: the store must be"
                " opened before it; start the scheduler, or run"
                f" `{self.address.command('migrate')}`, first."
            ) from error
        return await transaction.ready(backend)

    async def get(self, name: str, default: Any = UNCHANGED) -> Any:
        editor = self.editor(await self.backend())
        return await (editor.get(name) if default is UNCHANGED else editor.get_or(name, default))

    async def preview(self, name: str, n: int) -> list[Explanation]:
        schedule, now = await self.get(name), await (await self.backend()).now()
        planned = schedule.next_nominal if schedule.active else None
        after = now if planned is None else planned - timedelta(microseconds=1)
        return trigger_of(schedule).preview(n, after, schedule.uid)

    async def explain(self, name: str, time: datetime | str) -> Explanation:
        schedule = await self.get(name)
        return trigger_of(schedule).explain(moments.read("time", time), schedule.uid)

    async def schedules(self, tenant: str | None, limit: int, ended: bool) -> list[Schedule]:
        backend = await self.backend()
        found = await backend.schedules.find(tenant=tenant, limit=limit, ended=ended)
        if not found:
            await self._mistyped.check_namespace(backend)
            await self._mistyped.check_tenant(backend, tenant)
        return list(found.values())

    async def get_run(self, run: RunRecord | int) -> RunRecord:
        run_id = run_number(run)
        return await (await self._control()).get(run_id)

    async def attempts(self, run: RunRecord | int) -> list[Attempt]:
        found = await self.get_run(run)
        return await (await self.backend()).runs.attempts(found.id)

    async def runs(
        self,
        schedule: str | None,
        state: str | None,
        limit: int,
        task: str | Callable[..., Any] | None,
    ) -> list[RunRecord]:
        chosen = chosen_runs(schedule, state, limit, task, self.tasks)
        backend = await self.backend()
        found = await backend.runs.find(**chosen)
        if not found:
            await self._mistyped.check_namespace(backend)
            await self._mistyped.check_task(backend, chosen["task"])
            # One that was removed still has its runs.
            if schedule and not await backend.runs.find(schedule=schedule, limit=1):
                await self._check_name(schedule)
        return found

    async def occurrences(self, schedule: str, limit: int) -> list[Occurrence]:
        found = await (await self.backend()).schedules.occurrences(schedule, limit)
        if not found:
            await self._check_name(schedule)
        return found

    async def _check_name(self, schedule: str) -> None:
        """Nothing was found. A name that nobody has must not look like one that never ran; but what
        this code declares need not be stored yet."""
        if schedule not in self.tasks:
            await self.get(schedule)


def enabled() -> bool:
    """TENURE_ENABLED=0 starts nothing: for users' test suites."""
    return os.environ.get("TENURE_ENABLED", "1").lower() not in ("0", "false", "no", "off")
