"""The world: a scheduler in virtual time, moved by hand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from string import ascii_lowercase
from typing import Any, NoReturn, Self

from tenure.errors import ConfigError, NotFound
from tenure.model import RunRecord, RunState
from tenure.printable import brief
from tenure.scheduler.base import BaseScheduler
from tenure.testing.world.lending import Lend, check_lend
from tenure.testing.world.loop import WorldLoop
from tenure.testing.world.node import WorldNode
from tenure.testing.world.runtime import Failure, WorldRuntime

BEFORE = timedelta(milliseconds=100)
"""How long before something is due time begins to pass as it does: the leader prepares for it."""
UNITS = {"weeks", "days", "hours", "minutes", "seconds", "milliseconds", "microseconds"}
TRIES = 100
"""How often the nodes are asked to look for what is due at one instant."""


class World:
    """A scheduler in virtual time. Make one with `testing(scheduler)`; use it `with` or `async
    with`."""

    def __init__(
        self, scheduler: object, start: object, nodes: object, lend: Lend | None = None
    ) -> None:
        if not isinstance(scheduler, BaseScheduler):
            raise ConfigError(
                f"testing() takes your Scheduler or AsyncScheduler, not {scheduler!r}."
            )
        if not isinstance(nodes, int) or not 1 <= nodes <= len(ascii_lowercase):
            raise ConfigError(f"nodes={nodes!r} must be between 1 and {len(ascii_lowercase)}.")
        if lend is not None and not callable(lend):
            raise ConfigError(
                f"lend={lend!r} must be a function that returns a connection: lend=lambda: it."
            )
        if lend is not None:
            check_lend(lend, scheduler.tasks)
        self._lend = lend
        self._scheduler = scheduler
        self._start = _aware("start", start)
        self._names = ascii_lowercase[:nodes]
        self._open: WorldRuntime | None = None
        self._moving = False

    # -- life --------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        scheduler = self._scheduler
        own = scheduler._runtime
        if isinstance(own, WorldRuntime):
            raise ConfigError(
                "this scheduler is in a world already: leave that one first, or use it here."
            )
        if scheduler.running:
            raise ConfigError(
                "this scheduler is running: call stop() first. A world runs it by itself, so leave"
                " out start(), or set TENURE_ENABLED=0 for your tests."
            )
        self._loop = WorldLoop()
        self._open = scheduler._runtime = WorldRuntime(own, self._loop, self._start)
        self._open.lend = self._lend
        vars(scheduler)["run"] = _refuse_to_run
        try:
            self._open.begin(self._names)
            self._settle()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._leave()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *exc: object) -> None:
        self._leave()

    def _leave(self) -> None:
        runtime, self._open = self._open, None
        if runtime is not None:
            self._scheduler._runtime = runtime.own
            vars(self._scheduler).pop("run", None)
            self._loop.close()

    # -- time --------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        """The world's time, in UTC."""
        return self._runtime.clock.now().astimezone(UTC)

    def advance(self, time: timedelta | None = None, /, **units: float) -> None:
        """Let time pass: `advance(hours=6)`, or `advance(timedelta(hours=6))`. What comes due
        meanwhile, the last instant included, is executed at its time, before this returns."""
        given = ", ".join(f"{unit}={brief(number)}" for unit, number in units.items())
        try:
            if wrong := sorted(set(units) - UNITS):
                raise TypeError(f"there is no unit {wrong[0]!r}")
            step = timedelta(**units) + (time or timedelta())
            moment = self.now + step
        except (TypeError, ValueError, OverflowError) as error:
            raise ConfigError(
                f"advance({given}): {error}. Say how long, such as advance(hours=6), in weeks,"
                " days, hours, minutes, seconds or milliseconds."
            ) from None
        if not units and time is None:
            raise ConfigError(
                "advance() of how much? Such as advance(hours=6). To execute what is"
                " due without letting time pass, call run_due()."
            )
        if step < timedelta():
            raise ConfigError(f"advance({step}): time does not go back. Begin another world.")
        self._move(moment)

    def advance_to(self, moment: datetime) -> None:
        """Let time pass until then, as `advance` does."""
        moment = _aware("advance_to", moment)
        if moment < self.now:
            raise ConfigError(
                f"advance_to({moment.isoformat()}): it is {self.now.isoformat()} already, and time"
                " does not go back. Begin another world, with start=…."
            )
        self._move(moment)

    def run_due(self) -> int:
        """Execute what is due now, such as after `run_now`. No time passes. Returns how many runs
        have ended."""
        before = self._ended()
        self._move(self.now)
        return self._ended() - before

    def _move(self, moment: datetime) -> None:
        if self._moving:
            raise ConfigError("time is moving already: a task cannot move it.")
        self._moving = True
        try:
            self._settle()
            while (left := moment - self.now) > timedelta():
                self._leap(moment)
                left = moment - self.now
                until = round(self._loop.now + left.total_seconds(), 6)
                self._loop.run_to(min(until, self._loop.next_timer()))
            self._settle()
        finally:
            self._moving = False

    def _leap(self, moment: datetime) -> None:
        """If nothing happens until something is due, do without the heartbeats up to then."""
        runtime = self._runtime
        event = runtime.store.next_event()
        to = moment if event is None or event > moment else event - BEFORE
        if to > self.now and runtime.settled:
            runtime.clock.leap(to - self.now)
            runtime.wake()
            self._loop.drain()

    def _settle(self) -> None:
        """Have done all that can be done at this instant."""
        runtime = self._runtime
        self._loop.drain()
        for _ in range(TRIES):
            before = self._loop.calls
            runtime.wake()
            self._loop.drain()
            if not runtime.store.has_due() or self._loop.calls == before:
                break

    # -- what happened -----------------------------------------------------------------------------

    def ran(self, name: str | Callable[..., Any]) -> int:
        """How many runs of this schedule, or of this task, have succeeded."""
        return len([run for run in self.runs(name) if run.state is RunState.SUCCEEDED])

    def runs(self, name: str | Callable[..., Any] | None = None) -> list[RunRecord]:
        """Its runs, oldest first, whatever became of them; all runs without a name."""
        runs = self._runtime.store.all_runs()
        if name is None:
            return runs
        tasks = self._scheduler.tasks
        name = name if isinstance(name, str) else tasks.named(name).name
        found = [run for run in runs if name in (run.schedule, run.task)]
        if not found and name not in tasks:
            schedules = {s.name for s in self._runtime.store.tables.schedules.values()}
            if name not in schedules:
                known = ", ".join(sorted(schedules | {task.name for task in tasks})) or "none"
                raise NotFound(f"no schedule and no task is named {name!r}. There are: {known}.")
        return found

    @property
    def failures(self) -> list[Failure]:
        """Every attempt that raised, oldest first, with what it raised in `error`."""
        return list(self._runtime.failures)

    # -- nodes -------------------------------------------------------------------------------------

    @property
    def nodes(self) -> list[WorldNode]:
        return list(self._runtime.nodes)

    def node(self, name: str) -> WorldNode:
        """The node of that name: "a", "b" and so on."""
        for node in self._runtime.nodes:
            if node.name == name:
                return node
        known = ", ".join(node.name for node in self._runtime.nodes)
        raise NotFound(f"no node is named {name!r}: there are {known}. For more, testing(nodes=3).")

    def kill_during(self, task: str | Callable[..., Any]) -> None:
        """Kill the node that executes this task next: when it has, and before that is recorded."""
        runtime = self._runtime
        runtime.fates[runtime.tasks.named(task).name] = WorldNode.kill

    def freeze_during(self, task: str | Callable[..., Any]) -> None:
        """Freeze the node that executes this task next, at the same moment."""
        runtime = self._runtime
        runtime.fates[runtime.tasks.named(task).name] = WorldNode.freeze

    @property
    def leader(self) -> WorldNode | None:
        """The running node that leads, if one does."""
        leading = (node for node in self._runtime.nodes if node.leads and node.state == "running")
        return next(leading, None)

    def __repr__(self) -> str:
        if self._open is None:
            return "<World, closed>"
        states = [run.state for run in self.runs()]
        counts = ", ".join(f"{states.count(s)} {s}" for s in RunState if s in states)
        said = f"<World {self.now:%Y-%m-%d %H:%M:%S} UTC, runs: {counts or 'none'}"
        failures = self._runtime.failures
        return f"{said}; last failure {failures[-1]!r}>" if failures else f"{said}>"

    def _ended(self) -> int:
        return len([run for run in self._runtime.store.all_runs() if run.finished_at])

    @property
    def _runtime(self) -> WorldRuntime:
        if self._open is None:
            raise ConfigError("this world is not open: use it inside `with testing(…) as world:`.")
        return self._open


def _aware(what: str, moment: object) -> datetime:
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise ConfigError(
            f"{what}: {moment!r} is not a datetime with a time zone, such as"
            " datetime(2026, 1, 1, tzinfo=UTC)."
        )
    return moment.astimezone(UTC)


def _refuse_to_run(*args: object) -> NoReturn:
    raise ConfigError("run() would wait for ever: this scheduler is in a world, which runs it.")
