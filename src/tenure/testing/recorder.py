"""A scheduler whose calls are recorded, for tests of applications: nothing starts by itself."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

from tenure.model import LoggedEvent, RunRecord, RunState, Schedule
from tenure.process.clock import SystemClock
from tenure.scheduler.async_scheduler import AsyncScheduler
from tenure.scheduler.base import BaseScheduler
from tenure.schedules.editor import Editor
from tenure.testing.world import World
from tenure.testing.world.node import WorldNode
from tenure.testing.world.runtime import WorldRuntime

T = TypeVar("T")


class Recording:
    """What `add`, `put`, `enqueue` and `emit` were called with. Made by `recording(scheduler)`."""

    def __init__(self, scheduler: BaseScheduler) -> None:
        self._scheduler = scheduler
        self._world = World(scheduler, SystemClock().now(), 1)
        self._world._names = ""  # no node, so nothing is executed

    def __enter__(self) -> Self:
        self._world.__enter__()
        runtime = self._runtime

        def edit(connection: Any, work: Callable[[Editor], Coroutine[Any, Any, T]]) -> T:
            """Whatever the connection is: the call is recorded, and the connection left alone."""
            return runtime.thread.call(runtime.edit(work))

        async def edit_async(connection: Any, work: Callable[[Editor], Any]) -> Any:
            return edit(connection, work)

        awaited = isinstance(self._scheduler, AsyncScheduler)
        vars(self._scheduler)["_edit"] = edit_async if awaited else edit
        return self

    def __exit__(self, *exc: object) -> None:
        vars(self._scheduler).pop("_edit", None)
        self._world.__exit__(*exc)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *exc: object) -> None:
        self.__exit__(*exc)

    @property
    def schedules(self) -> list[Schedule]:
        """Those that were added, in their order; without what the code declares."""
        found = self._runtime.store.tables.schedules.values()
        return [schedule for schedule in found if schedule.spec.app is None]

    @property
    def runs(self) -> list[RunRecord]:
        """What was enqueued, or asked for with `run_now`, oldest first."""
        return self._runtime.store.all_runs()

    @property
    def events(self) -> list[LoggedEvent]:
        """What was emitted, in its order."""
        return list(self._runtime.store.tables.events.values())

    def run(self, *, later: bool = False) -> int:
        """Execute what was enqueued, on this thread; returns how many runs have ended. What is for
        later only with `later`: then the time of the recording moves on to it.

        What a task raises is raised here, and its run is as its policy says.
        """
        world, runtime = self._world, self._runtime
        before, failures = world._ended(), len(runtime.failures)
        waiting = [run.due for run in self.runs if run.state is RunState.WAITING]
        until = max([world.now, *waiting]) if later else world.now
        if runtime.nodes:
            runtime.nodes[0].revive()
        else:
            runtime.nodes.append(WorldNode("a", world._loop, runtime))
            runtime.disturbed()
        try:
            world._move(until)
        finally:
            runtime.nodes[0].freeze()
        if len(runtime.failures) > failures:
            raise runtime.failures[failures].error
        return world._ended() - before

    @property
    def _runtime(self) -> WorldRuntime:
        return self._world._runtime
