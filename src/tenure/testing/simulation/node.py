"""A simulated node: the real `tenure.node.Node` in a process that can be stopped and killed."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from tenure.backends.base import Stores, lease_topic
from tenure.errors import StoreError
from tenure.facts import Fact, Facts
from tenure.model import Holder
from tenure.node.elector import Elector
from tenure.node.node import Node
from tenure.node.service import Surroundings
from tenure.settings import Settings
from tenure.tasks.registry import Tasks
from tenure.tasks.results import Kept
from tenure.tasks.run import Run
from tenure.tasks.task import CONNECTION, Task
from tenure.tasks.transactional import lost, succeeded
from tenure.testing.execution import awaited
from tenure.testing.simulation.history import BODY, EFFECT, EPOCH, FACT, History
from tenure.testing.simulation.loop import Process, SimulationLoop
from tenure.testing.simulation.network import Link, Network
from tenure.testing.simulation.relaying import Broker

GUARD = "guard"

BuildNode = Callable[..., Node]
"""Called as `tenure.node.Node` is."""

_LEASE_FACTS = frozenset({"lease.acquired", "lease.restored"})


class NodeClock:
    """A node's clocks: too fast or too slow, and with a wall clock that somebody may set."""

    def __init__(self, loop: SimulationLoop, process: Process, wall_offset: float) -> None:
        self._loop = loop
        self._process = process
        self.wall_offset = wall_offset

    def now(self) -> datetime:
        elapsed = self._loop.now * self._process.rate
        return EPOCH + timedelta(seconds=elapsed + self.wall_offset)

    def monotonic(self) -> float:
        return self._process.boot(self._loop.now)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)  # noqa: TID251 - on this loop it is virtual

    async def wait(self, event: asyncio.Event, seconds: float | None) -> bool:
        # As `wait_event` does, without its timeout: services do little else than
        # wait, and this takes a third off a history.
        if not event.is_set() and (seconds is None or seconds > 0):
            waiter = self._loop.create_future()
            waiters = event._waiters
            waiters.append(waiter)
            timer = None
            if seconds is not None:
                timer = self._loop.call_later(seconds, _wake, waiter)
            try:
                await waiter
            finally:
                waiters.remove(waiter)
                if timer is not None:
                    timer.cancel()
        return event.is_set()

    def block(self, seconds: float) -> None:
        raise NotImplementedError("nothing blocks in virtual time")


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class _Recorded(Facts):
    """Facts that end up in the history, in the order of true time."""

    def __init__(self, node: SimulatedNode) -> None:
        super().__init__()
        self._node = node

    def tell(self, fact: Fact) -> None:
        self._node.told(fact)


class SimulatedNode:
    """One start of one process. After a crash another one takes its place, under a new name."""

    def __init__(
        self,
        name: str,
        loop: SimulationLoop,
        network: Network,
        history: History,
        tasks: Tasks,
        settings: Settings,
        *,
        rate: float,
        origin: float,
        wall_offset: float,
        guard: bool = False,
        build: BuildNode = Node,
        observe: Callable[[], None] = lambda: None,
        broker: Broker | None = None,
    ) -> None:
        self.name = name
        self.process = Process(name, rate, origin)
        self.link = Link(self.process)
        self.clock = NodeClock(loop, self.process, wall_offset)
        self.holders: list[str] = []
        """Every identity that it has had, the present one last."""
        self.stopping = False
        self._loop = loop
        self._history = history
        self._settings = settings
        self._observe = observe
        self._stopped_at = 0.0
        self._suspended = False
        leases = network.leases(self.link)
        self._runs = network.runs(self.link)
        self._wakeups = network.wakeups(self.link)
        facts = _Recorded(self)
        stores = Stores(
            leases,
            network.office(self.link),
            network.schedules(self.link),
            network.editions(self.link),
            self._runs,
            network.events(self.link),
            network.relays(self.link),
            network.audit(self.link),
            network.summaries(self.link),
            self._wakeups,
            self._wakeups,
            network.now(self.link),
        )
        around = Surroundings(self.clock, facts, settings)
        relays: dict[str, Any] = {}
        if broker is not None:
            relays["relays"] = [(broker.relay, broker.sink(name, self.clock))]
        self.node = build(
            stores,
            around,
            tasks,
            awaited(self._execute),
            app="simulation",
            location="simulation",
            new_holder=self._new_holder,
            **relays,
        )
        self.code = self.node.rollout.edition, sorted(task.name for task in tasks)
        """Its edition, and the tasks that it knows."""
        self._guard: Elector | None = None
        if guard:
            # A lease that all nodes want and no fence protects: as users' locks are.
            holder, keeper = self.node.presence.holder, self.node.keeper
            self._guard = Elector(GUARD, holder, leases, keeper, around)

    @property
    def alive(self) -> bool:
        return not self.process.dead

    @property
    def is_leader(self) -> bool:
        return self.alive and self.node.is_leader

    def start(self) -> None:
        self._loop.spawn(self.process, self._start())

    def crash(self) -> None:
        """As kill -9: not one more line of its code."""
        self._loop.kill(self.process)

    def pause(self, *, suspend: bool) -> None:
        """As SIGSTOP; or the whole machine is suspended, and its timers with it."""
        self.process.stopped = True
        self._stopped_at = self._loop.now
        self._suspended = suspend

    def thaw(self, *, timers_first: bool) -> None:
        if self.process.stopped and self.alive:
            slept = self._loop.now - self._stopped_at if self._suspended else 0.0
            self._loop.thaw(self.process, timers_first=timers_first, suspended=slept)

    def stop(self, grace: float) -> None:
        """As SIGTERM."""
        if not self.stopping:
            self.stopping = True
            self._loop.spawn(self.process, self._stop(grace))

    def trusted(self) -> list[tuple[str, str, int]]:
        """The leases that it believes to hold, at this instant: name, holder, term."""
        if self.process.dead:
            return []
        now = self.clock.monotonic()
        return [
            (held.grant.name, held.grant.holder, held.grant.term)
            for held in self.node.keeper.held
            if held.over is None and now < held.deadline
        ]

    def trusts_until(self) -> float:
        """When the next of those ends, unless it is renewed: in true time."""
        deadlines = [held.deadline for held in self.node.keeper.held if held.over is None]
        process = self.process
        return min(((d - process.origin) / process.rate for d in deadlines), default=float("inf"))

    def told(self, fact: Fact) -> None:
        self._history.add(self._loop.now, self.name, FACT, fact.name, fact)
        if fact.name in _LEASE_FACTS:
            self._observe()

    async def _start(self) -> None:
        while not self.stopping:
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(self._settings.ttl):
                    await self.node.rollout.declare()
                break
            await self.clock.sleep(0.25)
        if not self.stopping:
            await self.node.start()
            if self._guard is not None:
                self._wakeups.subscribe(lease_topic(GUARD), self._guard.wake)
                self._guard.start()

    async def _stop(self, grace: float) -> None:
        if self._guard is not None:
            await self._guard.halt()
            with suppress(StoreError):
                await self._guard.resign()
        await self.node.stop(grace)
        self._loop.kill(self.process)

    def _new_holder(self) -> Holder:
        self.holders.append(f"{self.name}.{len(self.holders) + 1}")
        return Holder(self.holders[-1], host=self.name, pid=1)

    async def _execute(self, task: Task, run: Run, timeout: float | None) -> None:
        """Runs the task on this loop, in virtual time."""
        about = (run.id, run.attempt, run.node)
        self._history.add(self._loop.now, self.name, BODY, "began", about)
        kwargs: dict[str, Any] = dict(run.kwargs)
        if task.run_parameter is not None:
            kwargs[task.run_parameter] = run
        if task.options.transactional:
            kwargs[CONNECTION] = None
        outcome = "cancelled"
        try:
            async with asyncio.timeout(timeout):
                result = task.function(**kwargs)
                if inspect.isawaitable(result):
                    await result
                if task.options.transactional:
                    self._history.add(self._loop.now, self.name, BODY, "ended", about)
                    await self._commit(run)
            outcome = "ended"
        except Exception as error:
            outcome = f"raised {type(error).__name__}"
            raise
        finally:
            self._history.add(self._loop.now, self.name, BODY, outcome, about)

    async def _commit(self, run: Run) -> None:
        """The effects of a transactional task, and its run: one operation of the store."""
        run.committed = None
        result = succeeded(run, Kept(EFFECT))
        async with asyncio.timeout(self._settings.call_timeout):
            batch = await self._runs.claim(run.node, (), 0, [result])
        run.committed = batch.kept == [True]
        if not run.committed:
            raise lost(run)
