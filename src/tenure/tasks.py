"""Tasks: the functions that runs execute, by name. Names are looked up here, never imported."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, ParamSpec, TypeVar, get_type_hints, overload

from tenure.arguments import NUMBER_MOST, keywords, lock_rule, seconds, whole
from tenure.errors import InvalidSchedule, UnknownTask
from tenure.model import CatchUp, OnCrash, Overlap
from tenure.triggers import Trigger, zones

P = ParamSpec("P")
R = TypeVar("R")

CATCH_UP_MOST = 1_000
_BEYOND = "; for longer stretches of the past there is backfill()"
_NO_TIMEOUT = "; without one a run may take as long as it likes"


@dataclass(slots=True)
class Run:
    """What a task may know about the run that it is executing."""

    id: int
    schedule: str
    task: str
    nominal: datetime
    attempt: int
    term: int
    node: str
    kwargs: Mapping[str, Any]
    cancelled: bool = False
    """It ran into its timeout, or its node is stopping or lost it: come to an end."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How a schedule is fired and its runs are executed."""

    catch_up: CatchUp = CatchUp.LATEST
    catch_up_limit: int = 100
    catch_up_grace: float = 60.0
    overlap: Overlap = Overlap.SKIP
    lock: str | None = None
    priority: int = 0
    timeout: float | None = None
    retries: int = 0
    on_crash: OnCrash = OnCrash.RERUN

    @classmethod
    def parse(cls, what: str, given: Mapping[str, Any]) -> Policy:
        """The policy of these options; refuses those that do not exist."""
        if not given:
            return _DEFAULT
        unknown = sorted(set(given) - set(cls.__dataclass_fields__))
        if unknown:
            raise InvalidSchedule(
                f"{what}: unknown option {unknown[0]!r}. Options are: name, kwargs, tenant,"
                f" {', '.join(cls.__dataclass_fields__)}."
            )
        return cls._of(**given)

    @classmethod
    def _of(
        cls,
        *,
        catch_up: str = "latest",
        catch_up_limit: object = 100,
        catch_up_grace: object = 60.0,
        overlap: str = "skip",
        lock: object = None,
        priority: object = 0,
        timeout: object = None,
        retries: object = 0,
        on_crash: str = "rerun",
    ) -> Policy:
        return cls(
            _choice(CatchUp, "catch_up", catch_up),
            whole("catch_up_limit", catch_up_limit, 1, CATCH_UP_MOST, _BEYOND),
            float(seconds("catch_up_grace", catch_up_grace, zero=True)),
            _choice(Overlap, "overlap", overlap),
            None if lock is None else lock_rule("lock", lock),
            whole("priority", priority, -NUMBER_MOST, NUMBER_MOST),
            None if timeout is None else seconds("timeout", timeout, otherwise=_NO_TIMEOUT),
            whole("retries", retries, 0, NUMBER_MOST),
            _choice(OnCrash, "on_crash", on_crash),
        )


_DEFAULT = Policy()


@dataclass(frozen=True, slots=True)
class Task:
    """A named function."""

    name: str
    function: Callable[..., Any]
    trigger: Trigger | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    tenant: str | None = None
    run_parameter: str | None = None
    """The parameter that is filled with the `Run`, if there is one."""
    is_async: bool = False
    """A coroutine function: it runs on a loop, not on a thread."""

    def check(self, kwargs: Mapping[str, Any]) -> None:
        """Refuse keyword arguments that the function does not take, before they are stored."""
        given = dict(kwargs)
        if self.run_parameter is not None:
            if self.run_parameter in given:
                raise InvalidSchedule(
                    f"task {self.name!r}: {self.run_parameter!r} is filled in with the Run and"
                    " cannot be given as a keyword argument. Rename one of them."
                )
            given[self.run_parameter] = None
        signature = inspect.signature(self.function)
        try:
            signature.bind(**given)
        except TypeError as error:
            raise InvalidSchedule(
                f"task {self.name!r} cannot be called with {sorted(kwargs)}: {error}."
                f" Its signature is {self.name}{signature}."
            ) from error


class Tasks:
    """Tasks of a module, declared without a scheduler at hand: `scheduler.include(tasks)`."""

    def __init__(self, tz: str | None = None) -> None:
        """`tz`: the zone of triggers about local time that name none; else the scheduler's."""
        self._tasks: dict[str, Task] = {}
        self._tz = zones.name(tz)

    @overload
    def task(self, function: Callable[P, R], /) -> Callable[P, R]: ...
    @overload
    def task(
        self,
        trigger: Trigger | None = None,
        /,
        *,
        name: str | None = None,
        kwargs: Mapping[str, Any] | None = None,
        tenant: str | None = None,
        **policy: Any,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...

    def task(
        self,
        trigger: Any = None,
        /,
        *,
        name: str | None = None,
        kwargs: Mapping[str, Any] | None = None,
        tenant: str | None = None,
        **policy: Any,
    ) -> Any:
        """Declare a task; with a trigger, schedule it too. The function comes back unchanged."""
        if callable(trigger) and not hasattr(trigger, "to_json"):
            return self.declare(trigger)

        def decorate(function: Callable[P, R]) -> Callable[P, R]:
            return self.declare(
                function, trigger=trigger, name=name, kwargs=kwargs, tenant=tenant, policy=policy
            )

        return decorate

    def declare(
        self,
        function: Callable[P, R],
        *,
        trigger: Trigger | None = None,
        name: str | None = None,
        kwargs: Mapping[str, Any] | None = None,
        tenant: str | None = None,
        policy: Mapping[str, Any] | None = None,
    ) -> Callable[P, R]:
        if not callable(function):
            raise InvalidSchedule(
                f"a task must be a function, not {function!r}. Write @scheduler.task, or"
                " @scheduler.task(every(seconds=10)) with a trigger."
            )
        if trigger is not None and not hasattr(trigger, "to_json"):
            raise InvalidSchedule(f"{trigger!r} is not a trigger, such as every(seconds=10).")
        if name is None:
            name = getattr(function, "__name__", None) or type(function).__name__
        if name == "<lambda>":
            raise InvalidSchedule("a lambda has no name of its own: give it one with name=….")
        kwargs = keywords(kwargs)
        if trigger is None and kwargs:
            raise InvalidSchedule(
                f"task {name!r} has kwargs but no trigger: keyword arguments belong to a"
                " schedule. Give a trigger, or pass them to scheduler.add()."
            )
        parsed = Policy.parse(f"task {name!r}", policy or {})
        task = Task(
            name=check_name(name, "task"),
            function=function,
            trigger=trigger,
            kwargs=dict(kwargs),
            policy=parsed,
            tenant=tenant,
            run_parameter=_run_parameter(function),
            is_async=is_async(function),
        )
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
                f"two tasks are named {task.name!r}: {_place(known.function)} and"
                f" {_place(task.function)}. Give one of them another name with name=…."
            )
        if task.trigger is not None and self._tz is not None:
            task = replace(task, trigger=task.trigger.zoned(self._tz))
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
            f"{_place(task)} is not a task of this scheduler. Decorate it with @scheduler.task."
        )


def is_async(function: Callable[..., Any]) -> bool:
    return asyncio.iscoroutinefunction(function) or asyncio.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - a callable object's own method
    )


def check_name(name: object, what: str) -> str:
    if not isinstance(name, str) or not name or len(name) > 200 or not name.isprintable():
        raise InvalidSchedule(f"a {what}'s name is 1 to 200 printable characters, not {name!r}.")
    return name


Choice = TypeVar("Choice", CatchUp, Overlap, OnCrash)


def _choice(kind: type[Choice], name: str, value: str) -> Choice:
    try:
        return kind(value)
    except ValueError:
        choices = ", ".join(repr(str(k)) for k in kind)
        raise InvalidSchedule(f"{name}={value!r} is not known; choose from {choices}.") from None


def _run_parameter(function: Callable[..., Any]) -> str | None:
    """The parameter annotated `Run`, or named `run`."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    try:
        hints = get_type_hints(function)
    except Exception:  # noqa: BLE001 - users' annotations may name anything
        hints = getattr(function, "__annotations__", {})
    for name in parameters:
        if hints.get(name) in (Run, "Run", "tenure.Run"):
            return name
    return "run" if "run" in parameters and "run" not in hints else None


def _place(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
    return f"{getattr(function, '__qualname__', function)!s}{where}"
