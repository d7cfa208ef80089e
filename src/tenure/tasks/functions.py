"""What is given as a task: is it something that a run can execute, and where does it come from?"""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tenure.errors import InvalidSchedule
from tenure.printable import brief


def _generator() -> Iterator[None]:
    yield


async def _async_generator() -> AsyncIterator[None]:
    yield


_OF_CONTEXTS = (
    contextmanager(_generator).__code__,
    asynccontextmanager(_async_generator).__code__,
)
"""What @contextmanager makes: calling it executes nothing of the function."""


def check_function(function: object) -> None:
    """Refuse what a run could call without executing anything: it would count as a success."""
    if not callable(function):
        raise InvalidSchedule(
            f"a task must be a function, not {brief(function)}. Write @scheduler.task, or"
            " @scheduler.task(every(seconds=10)) with a trigger."
        )
    called = _without_partial(function)
    if isinstance(called, type):
        raise InvalidSchedule(
            f"{called.__qualname__} is a class: a run would only create an instance. Declare a"
            " function, a method of an instance, or an instance with __call__."
        )
    if getattr(called, "__code__", None) in _OF_CONTEXTS:
        raise InvalidSchedule(
            f"{place(inspect.unwrap(called))} is a context manager: nothing would enter it. Declare"
            " a function that uses it, with `with`; around all tasks, use"
            " scheduler.around(tenure.contrib.contexts.inside(…))."
        )
    if is_generator(function):
        raise InvalidSchedule(
            f"{place(function)} is a generator: nothing would execute its body. A task has no"
            " `yield`: do the work in a loop, and return a list if there is a result to keep."
        )


def check_findable(function: object, what: str) -> None:
    """Refuse what another process could not find: it imports modules and knows names."""
    if sys.platform == "win32":
        raise InvalidSchedule(f"{what}: isolate=True works on Linux and macOS, not on Windows.")
    name = getattr(function, "__qualname__", None)
    module = getattr(function, "__module__", None)
    if name is None or module is None or "<locals>" in name or "<lambda>" in name:
        raise InvalidSchedule(
            f"{what}: isolate=True needs a function at the top of a module, which its process can"
            f" import; {place(function)} is not. Move it there; a module without a scheduler"
            " collects its tasks in a Tasks()."
        )
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if module == "__main__" and (file is None or not Path(file).exists()):
        raise InvalidSchedule(
            f"{what}: isolate=True needs a module that its process can import, and {name} was"
            " typed into an interpreter, or came with `python -c` or a pipe. Put it into a file."
        )


def place(function: object) -> str:
    code = getattr(function, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
    return f"{getattr(function, '__qualname__', function)!s}{where}"


def is_generator(function: object) -> bool:
    """Does calling it execute nothing of it?"""
    called = _without_partial(function)
    both = called, getattr(called, "__call__", None)  # noqa: B004 - a callable object's own method
    return any(map(inspect.isgeneratorfunction, both)) or any(map(inspect.isasyncgenfunction, both))


def _without_partial(function: Any) -> Any:
    while isinstance(function, partial):
        function = function.func
    return function
