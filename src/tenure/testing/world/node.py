"""One node of a world: the real `Node`, in a process that a test can freeze, kill and revive."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tenure.backends.base import Stores
from tenure.errors import ConfigError
from tenure.facts import Facts
from tenure.model import Holder
from tenure.node.node import Node
from tenure.node.service import Surroundings
from tenure.process.threads import Threads
from tenure.scheduler.claims import TransactionClaims
from tenure.tasks.executor import Cancel, Ended, Executor
from tenure.tasks.results import Kept
from tenure.tasks.run import Run
from tenure.tasks.task import Task
from tenure.testing.simulation.loop import Process
from tenure.testing.world.lending import WorldTransactions
from tenure.testing.world.loop import WorldLoop

if TYPE_CHECKING:
    from tenure.testing.world.runtime import WorldRuntime


class InlineThreads(Threads):
    """Does each job on the spot, on the thread of the test."""

    def __init__(self, loop: WorldLoop) -> None:
        super().__init__("world")
        self._world_loop = loop

    def submit(self, job: Callable[[], None]) -> None:
        self._world_loop.call_soon(self._world_loop.off_loop, job)


class WorldNode:
    """A node of the world, by its name: "a", "b" and so on."""

    def __init__(self, name: str, loop: WorldLoop, runtime: WorldRuntime) -> None:
        self.name = name
        self._loop = loop
        self._runtime = runtime
        self._starts = 0
        self._holders = 0
        self._start()

    def __repr__(self) -> str:
        return f"<node {self.name!r}: {self.state}{', leads' if self.leads else ''}>"

    @property
    def state(self) -> str:
        """ "running", "frozen" or "dead"."""
        if self._process.dead:
            return "dead"
        return "frozen" if self._process.stopped else "running"

    @property
    def leads(self) -> bool:
        """Does it lead, or believe so? A frozen node may."""
        return not self._process.dead and self.node.is_leader

    def freeze(self) -> None:
        """As SIGSTOP: nothing of it happens until you revive it. Others take over after a ttl."""
        self._expect("freeze", "running")
        self._process.stopped = True
        self._runtime.disturbed()

    def kill(self) -> None:
        """As kill -9: not one more line of it. Others take over within a second."""
        self._expect("kill", "running", "frozen")
        self._loop.kill(self._process)
        self._runtime.store.hinted.dead.add(self.node.id)
        self._runtime.disturbed()

    def revive(self) -> None:
        """Let it go on if it was frozen; if it was killed, start it again, as a new process."""
        self._expect("revive", "frozen", "dead")
        if self._process.dead:
            self._start()
        else:
            self._loop.thaw(self._process, timers_first=True)
        self._runtime.disturbed()

    def _expect(self, what: str, *states: str) -> None:
        if self.state not in states:
            raise ConfigError(
                f"{what}(): node {self.name!r} is {self.state}, not {' or '.join(states)}."
            )

    def _start(self) -> None:
        runtime, loop = self._runtime, self._loop
        self._starts += 1
        self._process = Process(self.name, origin=1_000.0 * self._starts)
        self.facts = Facts(defer=loop.outside)
        for pattern, listener in runtime.listeners:
            self.facts.on(pattern, listener)
        self._executor = Executor(InlineThreads(loop), lambda: loop, runtime.settings.result_limit)
        self._executor.wrappers = runtime.wrappers
        self._executor.claims = TransactionClaims(runtime.at_once)
        self._executor.transactional = WorldTransactions(runtime, self._executor.keep)
        self.node = Node(
            Stores.of(runtime.store),
            Surroundings(runtime.clock, self.facts, runtime.settings),
            runtime.tasks,
            self._execute,
            app=runtime.app,
            location=runtime.store.location,
            at=runtime.address,
            new_holder=self._new_holder,
        )
        # What a task's own thread tells goes with the result: virtual time waits for no thread.
        news = self.node.reporter.news
        self.node.worker.on_news = lambda: news() if loop.is_here else None
        started = self._loop.spawn(self._process, self._join(self.node))
        if not self._loop.is_running():
            self._loop.drain()
        if started.done():
            started.result()  # what is wrong with a declaration is for the test

    @staticmethod
    async def _join(node: Node) -> None:
        await node.rollout.declare()
        await node.start()

    def _new_holder(self) -> Holder:
        self._holders += 1
        name = self.name if self._holders == 1 else f"{self.name}.{self._holders}"
        return Holder(name, host=self.name, pid=self._starts)

    def _execute(self, task: Task, run: Run, timeout: float | None, ended: Ended) -> Cancel:
        process = self._process

        def told(error: BaseException | None, kept: Kept | None) -> None:
            self._runtime.executed(self, run, error)
            if process.stopped and not process.dead:
                self._loop.call_soon(ended, error, kept)  # it goes on with this when it is revived
            elif not process.dead:
                ended(error, kept)

        return self._executor(task, run, timeout, told)
