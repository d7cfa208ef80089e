"""What a scheduler works with while it is in a world, in place of its own store and threads."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from tenure.backends.address import Address
from tenure.backends.base import Joined, Joins
from tenure.errors import Cancelled, ConfigError, Retry
from tenure.facts import Fact
from tenure.process.loop_thread import LoopThread
from tenure.scheduler.runtime import Runtime
from tenure.settings import Settings
from tenure.tasks.executor import Wrapper
from tenure.tasks.outcomes import NotBegun
from tenure.tasks.run import Run
from tenure.testing.world.clock import WorldClock
from tenure.testing.world.lending import Lend
from tenure.testing.world.loop import WorldLoop
from tenure.testing.world.node import WorldNode
from tenure.testing.world.store import WorldStore

T = TypeVar("T")
HINT_EVERY = 1.0
"""Seconds. Nobody need look more often: whoever is killed, the others are told."""
ANY_JUMP = 1e12
"""Seconds. The world's clock leaps on purpose."""

AT_ONE_INSTANT = 10_000
"""How often a task may be executed. More can only be one that is started again by itself."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that raised."""

    schedule: str | None
    """None of a run that was enqueued."""
    task: str
    nominal: datetime
    attempt: int
    node: str
    error: BaseException

    def __repr__(self) -> str:
        name, at = self.schedule or self.task, f"{self.nominal:%Y-%m-%d %H:%M:%S}"
        what = f"{name} at {at}, attempt {self.attempt}"
        return f"<{what}: {self.error!r}>"


class WorldAddress(Address):
    """No command reaches a world: errors suggest what a test can call instead."""

    def command(self, *words: str, name: str | None = None) -> str:
        match words:
            case "runs", *_:
                return "world.runs()"
            case "schedules", "remove":
                return f"scheduler.remove({name!r})"
            case "schedules", "show":
                return f"scheduler.get({name!r})"
        return "scheduler.schedules()"


class Inline(LoopThread):
    """Calls that a thread of Tenure's own would answer are answered on the spot."""

    def __init__(self, loop: WorldLoop) -> None:
        super().__init__()
        self._world = loop

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._world

    @property
    def forked(self) -> bool:
        return False

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            with self._world.entered():
                coroutine.send(None)
        except StopIteration as end:
            result: T = end.value
            return result
        coroutine.close()
        raise ConfigError(
            "this call waits for something that comes with time, and here time stands still: call"
            " world.run_due() or world.advance(…) first."
        )

    async def call_async(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.call(coroutine)

    def close(self) -> None:
        pass


class WorldRuntime(Runtime):
    """The tasks, settings and listeners of a scheduler, with the world's store and time."""

    def __init__(self, own: Runtime, loop: WorldLoop, start: datetime) -> None:
        # A process that only schedules or only executes has others: here each node does all.
        settings = replace(
            own.settings,
            concurrency=own.settings.concurrency or Settings().concurrency,
            queues=(),
            leads=True,
            hint_every=HINT_EVERY,
            jump_limit=ANY_JUMP,
        )
        clock = WorldClock(loop, start)
        super().__init__(
            "memory://",
            namespace=own.namespace,
            app=own.app,
            tz=own.tz,
            settings=settings,
            clock=clock,
        )
        self.own = own
        self.url, self.address, self.tasks = own.url, WorldAddress(), own.tasks
        self.clock = clock
        self.thread = Inline(loop)
        self.store = WorldStore(clock)
        self.nodes: list[WorldNode] = []
        self.lend: Lend | None = None
        self.failures: list[Failure] = []
        self.fates: dict[str, Callable[[WorldNode], None]] = {}
        """What becomes of the node that is the next to execute a task."""
        self._executed: Counter[str] = Counter()
        """How often each task was executed at this instant."""
        self._executed_at = start
        self._settled_at = 0.0
        """When the nodes have come to terms with what was last done to one of them."""
        self.listeners = list(own._listeners)
        self.wrappers: list[Wrapper] = list(own._wrappers)
        self._loop = loop

    def begin(self, names: str) -> None:
        self.thread.call(self.store.open())
        self._backend = self.store
        for name in names:
            self.nodes.append(WorldNode(name, self._loop, self))
        self.disturbed()
        if len(self.nodes) == 1:
            self._settled_at = self.clock.monotonic()

    def disturbed(self) -> None:
        """A node was started, frozen, killed or revived. Let the others notice; and time pass as it
        does, heartbeat by heartbeat, until they have come to terms with it."""
        patience = 2 * self.settings.ttl + 2 * self.settings.rollout_grace
        self._settled_at = self.clock.monotonic() + patience
        living = [each for each in self.nodes if each.state == "running"]
        for each in living:
            each.node.elector.wake()
            each.node.reaper.wake()
        self.node = living[0].node if living else None

    def wake(self) -> None:
        """Have everybody look at what is due."""
        for each in self.nodes:
            each.node.ticker.wake()
            each.node.worker.wake()

    @property
    def settled(self) -> bool:
        """Does nothing happen until something is due? A task that is being executed may go on."""
        running = (each.node.worker.running for each in self.nodes if each.state == "running")
        return not any(running) and self.clock.monotonic() >= self._settled_at

    def executed(self, node: WorldNode, run: Run, error: BaseException | None) -> None:
        """A task ended, or raised. Nobody knows yet."""
        if isinstance(error, NotBegun):
            return
        if self._executed_at != self.clock.now():
            self._executed_at = self.clock.now()
            self._executed.clear()
        self._executed[run.task] += 1
        if self._executed[run.task] > AT_ONE_INSTANT:
            raise ConfigError(
                f"task {run.task!r} was executed {AT_ONE_INSTANT:,} times and it is still"
                f" {self._executed_at.isoformat()}: is it started again and again, such as by"
                " itself with run_now()? Let it wait a while."
            )
        fate = self.fates.pop(run.task, None)
        if fate is not None:
            fate(node)
        if error is None or isinstance(error, Retry | Cancelled):
            return
        if isinstance(error, asyncio.CancelledError) and run.cancelled:
            return
        if not isinstance(error, Exception | SystemExit | asyncio.CancelledError):
            raise error  # Ctrl-C, or pytest.fail(): it is for the test
        self.failures.append(
            Failure(run.schedule, run.task, run.nominal, run.attempt, run.node, error)
        )

    # -- what the scheduler asks of it -------------------------------------------------------------

    async def start(self, user_loop: asyncio.AbstractEventLoop | None) -> None:
        """The nodes of the world run already."""

    async def stop(self, grace: float | None) -> None:
        """They go on until the world ends."""

    def on(self, pattern: str, listener: Callable[[Fact], None]) -> None:
        self.listeners.append((pattern, listener))
        for each in self.nodes:
            each.facts.on(pattern, listener)

    def wrap(self, wrapper: Wrapper) -> None:
        self.wrappers.append(wrapper)

    @property
    def at_once(self) -> Joins:
        return _AtOnce(self.store)

    async def joins(self) -> Joins:
        return self.at_once


class _AtOnce:
    """Changes that would commit with the user's transaction: in a world they are made at once."""

    def __init__(self, store: WorldStore) -> None:
        self._store = store

    async def identify(self) -> None:
        pass

    def join(self, connection: object) -> Joined:
        store = self._store
        return Joined(store.schedules, store.runs, store.now, store.confirm, store.events)
