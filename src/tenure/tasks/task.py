"""A task: a named function, and how it is executed."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tenure.errors import InvalidSchedule
from tenure.printable import nearest
from tenure.tasks.arguments import LOCK_NAMES, lock_names
from tenure.tasks.options import Options
from tenure.tasks.policy import Policy
from tenure.triggers import Trigger

CONNECTION = "connection"
"""The parameter that is filled with the connection of a transactional task."""


@dataclass(frozen=True, slots=True)
class Task:
    """A named function."""

    name: str
    function: Callable[..., Any]
    trigger: Trigger | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    given: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What of the policy was said; a scheduler may have defaults for the rest."""
    tenant: str | None = None
    run_parameter: str | None = None
    """The parameter that is filled with the `Run`, if there is one."""
    is_async: bool = False
    """A coroutine function: it runs on a loop, not on a thread."""
    options: Options = field(default_factory=Options)

    def check(self, kwargs: Mapping[str, Any]) -> None:
        """Refuse keyword arguments that the function does not take, before they are stored."""
        given = dict(kwargs)
        for parameter, filling in self._filled():
            if parameter in given:
                raise InvalidSchedule(
                    f"task {self.name!r}: {parameter!r} is filled in with {filling} and"
                    " cannot be given as a keyword argument. Rename one of them."
                )
            given[parameter] = None
        signature = inspect.signature(self.function)
        try:
            signature.bind(**given)
        except TypeError as error:
            filled = {parameter for parameter, _ in self._filled()}
            names = [name for name in signature.parameters if name not in filled]
            wrong = next((name for name in kwargs if name not in names), None)
            why = f"{error}." if wrong is None else f"it takes no {wrong!r}.{nearest(wrong, names)}"
            raise InvalidSchedule(
                f"task {self.name!r} cannot be called with {sorted(kwargs)}: {why} It takes"
                f" {', '.join(map(str, _shown(signature, names))) or 'no arguments'}."
            ) from error

    def check_lock(self) -> None:
        """Refuse a lock key with a name that nothing can fill in."""
        parameters = inspect.signature(self.function).parameters
        if self.policy.lock is None or any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            return
        filled = {name for name, _ in self._filled()}
        for name in lock_names(self.policy.lock):
            if name not in LOCK_NAMES and (name not in parameters or name in filled):
                raise InvalidSchedule(
                    f"task {self.name!r}: lock={self.policy.lock!r}: {{{name}}} is neither a"
                    " parameter that a schedule fills in nor one of"
                    f" {', '.join(f'{{{known}}}' for known in LOCK_NAMES)}. Its signature is"
                    f" {self.name}{inspect.signature(self.function)}."
                )

    def _filled(self) -> Iterator[tuple[str, str]]:
        if self.run_parameter is not None:
            yield self.run_parameter, "the Run"
        if self.options.transactional:
            yield CONNECTION, "the connection of its transaction"


def _shown(signature: inspect.Signature, names: Iterable[str]) -> Iterator[inspect.Parameter]:
    """Names and defaults; the types say nothing about what is wrong."""
    for name in names:
        yield signature.parameters[name].replace(annotation=inspect.Parameter.empty)


def is_async(function: Callable[..., Any]) -> bool:
    return asyncio.iscoroutinefunction(function) or asyncio.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - a callable object's own method
    )
