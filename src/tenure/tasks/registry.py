"""Tasks: the functions that runs execute, by name. Names are looked up here, never imported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar, overload

from tenure.errors import InvalidSchedule, UnknownTask
from tenure.tasks.arguments import check_name, keywords
from tenure.tasks.backoff import Backoff, Errors
from tenure.tasks.functions import check_findable, check_function, place
from tenure.tasks.options import DEFAULT_QUEUE, Options
from tenure.tasks.policy import Policy
from tenure.tasks.run import Run, run_parameter
from tenure.tasks.task import Task, is_async
from tenure.tasks.transactional import check_connection
from tenure.triggers import Trigger, as_trigger, zones

P = ParamSpec("P")
R = TypeVar("R")


class Tasks:
    """A module's tasks, declared without a scheduler: `scheduler.include(tasks)`."""

    def __init__(self, tz: str | None = None, *, policies: Mapping[str, Any] | None = None) -> None:
        """`tz`: the time zone of triggers that name none; by default the scheduler's. `policies`:
        what holds for tasks that do not say it themselves, such as {"retries": 3}."""
        self.policies = dict(policies or {})
        Policy.parse("policies", self.policies)
        self._tasks: dict[str, Task] = {}
        self._tz = zones.name(tz)
        self.wrappers: list[Callable[[Callable[[], Any], Run], Any]] = []
        """What a scheduler has around them."""

    @overload
    def task(self, function: Callable[P, R], /) -> Callable[P, R]: ...
    @overload
    def task(
        self,
        trigger: Trigger | str | None = None,
        /,
        *,
        name: str | None = None,
        kwargs: Mapping[str, Any] | None = None,
        tenant: str | None = None,
        keep_result: bool = True,
        queue: str = DEFAULT_QUEUE,
        backoff: Backoff | None = None,
        retry_on: Errors | None = None,
        give_up_on: Errors = (),
        transactional: bool = False,
        max_running: int | None = None,
        on_failure: str | Callable[..., Any] | None = None,
        isolate: bool = False,
        memory_mb: int | None = None,
        **policy: Any,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...

    def task(self, trigger: Any = None, /, **given: Any) -> Any:
        """Declare a task and, with a trigger, schedule it. Returns the function unchanged.

        The trigger may be text, such as "every 5m" or "0 7 * * *".
        `backoff` says how long to wait before each further attempt; `retry_on` after which errors
        there is one, all by default; and `give_up_on` after which of these there is none.
        `max_running`: at most so many runs of it are claimed at a time in the whole cluster.
        `on_failure`: the task that is told when a run has failed or is lost for good. A
        `transactional` task has a parameter `connection`: what it writes through that commits
        together with its run. `isolate` executes it in a process of its own, which is killed at
        its timeout, and may have no more memory than `memory_mb`.
        """
        if callable(trigger) and not hasattr(trigger, "to_json"):
            return self.declare(trigger, **given)
        return lambda function: self.declare(function, trigger=trigger, **given)

    def declare(
        self,
        function: Callable[P, R],
        *,
        trigger: Trigger | str | None = None,
        name: str | None = None,
        kwargs: Mapping[str, Any] | None = None,
        tenant: str | None = None,
        policy: Mapping[str, Any] | None = None,
        **given: Any,
    ) -> Callable[P, R]:
        """Declare a task. `given` are options of its code, and policies, as is `policy`."""
        check_function(function)
        made = None if trigger is None else as_trigger(trigger)
        if name is None:
            name = getattr(function, "__name__", None) or type(function).__name__
        if name == "<lambda>":
            raise InvalidSchedule("a lambda has no name: give it one with name=….")
        kwargs = keywords(kwargs)
        if trigger is None and kwargs:
            raise InvalidSchedule(
                f"task {name!r} has kwargs but no trigger: keyword arguments belong to a"
                " schedule. Give a trigger, or pass them to scheduler.add()."
            )
        check_name(name, "task")
        what, names = f"task {name!r}", Options.names()
        options = {option: given.pop(option) for option in names if option in given}
        own = {**self.policies, **given, **(policy or {})}
        task = Task(
            name=name,
            function=function,
            trigger=made,
            kwargs=dict(kwargs),
            policy=Policy.parse(what, own),
            given=own,
            tenant=tenant,
            run_parameter=run_parameter(function),
            is_async=is_async(function),
            options=Options.parse(what, options),
        )
        if task.options.transactional:
            check_connection(name, function)
        if task.options.isolate:
            check_findable(function, what)
        task.check_lock()
        if trigger is not None:
            task.check(task.kwargs)
        self._put(task)
        return function

    def include(self, tasks: Tasks) -> None:
        """Take over the tasks declared elsewhere."""
        for task in tasks:
            self._put(task)

    def _put(self, task: Task) -> None:
        known = self._tasks.get(task.name)
        if known is not None and known.function is not task.function:
            raise InvalidSchedule(
                f"two tasks are named {task.name!r}: {place(known.function)} and"
                f" {place(task.function)}. Give one of them another name with name=…."
            )
        if task.trigger is not None and self._tz is not None:
            task = replace(task, trigger=task.trigger.zoned(self._tz))
        if not self.policies.keys() <= task.given.keys():  # it was declared elsewhere
            given = {**self.policies, **task.given}
            task = replace(task, given=given, policy=Policy.parse(f"task {task.name!r}", given))
        self._tasks[task.name] = task

    def __getitem__(self, name: str) -> Task:
        try:
            return self._tasks[name]
        except KeyError:
            known = ", ".join(sorted(self._tasks)) or "none"
            raise UnknownTask(
                f"unknown task {name!r}. Declared here: {known}. Declare it with @scheduler.task"
                " before it is scheduled."
            ) from None

    def __contains__(self, name: str) -> bool:
        return name in self._tasks

    def __iter__(self) -> Iterator[Task]:
        return iter(self._tasks.values())

    def __len__(self) -> int:
        return len(self._tasks)

    def named(self, task: str | Callable[..., Any]) -> Task:
        """The task of that name or function."""
        if isinstance(task, str):
            return self[task]
        for known in self:
            if known.function is task:
                return known
        raise UnknownTask(
            f"{place(task)} is not a task of this scheduler. Decorate it with @scheduler.task."
        )
