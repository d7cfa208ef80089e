"""Transactional tasks in a world: on connections that the test supplies."""

from __future__ import annotations

import inspect
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from tenure.backends.shared.lending import not_yours, record, to_its_end
from tenure.errors import ConfigError
from tenure.tasks.run import Run
from tenure.tasks.task import CONNECTION, Task
from tenure.tasks.transactional import CompletedByItself, Keep, lost, succeeded

if TYPE_CHECKING:
    from tenure.testing.world.runtime import WorldRuntime

_ENDS = ("commit", "rollback", "close", "executescript")
Lend = Callable[[], Any]
"""Returns a connection with `commit` and `rollback`, which may be coroutine functions if the task
is one."""


class WorldTransactions:
    """Calls a task with a connection, and commits when its run is on record."""

    def __init__(self, runtime: WorldRuntime, keep: Keep) -> None:
        self._runtime = runtime
        self._keep = keep

    def __call__(
        self, task: Task, run: Run, timeout: float | None, call: Callable[..., Any]
    ) -> Any:
        del timeout  # time stands still
        lend = self._runtime.lend
        if lend is None:
            raise ConfigError(
                f"task {task.name!r} is transactional, and a world has no database: supply the"
                " connections, such as testing(scheduler, lend=lambda: connection)."
            )
        run.claims = CompletedByItself(run.claims)
        executed = self._execute(task, run, lend, call)
        return executed if task.is_async else to_its_end(executed)

    async def _execute(self, task: Task, run: Run, lend: Lend, call: Callable[..., Any]) -> Any:
        connection = _checked(await _awaited(lend()))
        try:
            with _without_an_end(connection) as lent:
                returned = await _awaited(call(**{CONNECTION: lent}))
        except BaseException:
            await _awaited(connection.rollback())
            raise
        if task.name in self._runtime.fates:
            await _awaited(connection.rollback())  # it is killed, or frozen, before its commit
            return returned
        result = succeeded(run, self._keep(task, returned))
        run.committed = record(self._runtime.at_once.join(connection), result)
        if not run.committed:
            await _awaited(connection.rollback())
            raise lost(run)
        await _awaited(connection.commit())
        return returned


def check_lend(lend: Lend, tasks: Iterable[Task]) -> None:
    """Refuse what cannot serve these tasks, before time begins to pass."""
    try:
        inspect.signature(lend).bind()
    except TypeError as error:
        raise ConfigError(
            f"lend={lend!r} is called without arguments, but {error}. Write lend=lambda: it."
        ) from None
    except ValueError:  # it has no signature that Python can tell
        return
    for task in tasks:
        if task.options.transactional and not task.is_async and inspect.iscoroutinefunction(lend):
            raise ConfigError(
                f"lend={lend!r} is a coroutine function, and task {task.name!r} is a plain one,"
                " which cannot await its connection. Return the connection itself."
            )


def _checked(connection: Any) -> Any:
    for call in ("commit", "rollback"):
        if not callable(getattr(connection, call, None)):
            raise ConfigError(
                f"lend() returned {connection!r}, which has no {call}(). Return a connection, such"
                " as sqlite3.connect(…)."
            )
    return connection


@contextmanager
def _without_an_end(connection: Any) -> Iterator[Any]:
    """The connection, whose transaction is not the task's to end: as outside of a world."""
    if isinstance(connection, sqlite3.Connection) or not hasattr(connection, "__dict__"):
        # The `with` of sqlite3's ends it without asking commit(). Others cannot be changed.
        yield _Proxy(connection)
        return
    own = vars(connection)
    before = {call: own[call] for call in _ENDS if call in own}
    own.update({call: partial(_refuse, call) for call in _ENDS if hasattr(connection, call)})
    try:
        yield connection
    finally:
        for call in _ENDS:
            own.pop(call, None)
        own.update(before)


def _refuse(call: str, *_: object, **__: object) -> NoReturn:
    raise not_yours(f"{call}()")


class _Proxy:
    """Has all that the connection has, and passes for one."""

    def __init__(self, connection: Any) -> None:
        object.__setattr__(self, "_connection", connection)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(object.__getattribute__(self, "_connection"))

    def __getattr__(self, name: str) -> Any:
        if name in _ENDS:
            return partial(_refuse, name)
        return getattr(object.__getattribute__(self, "_connection"), name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(object.__getattribute__(self, "_connection"), name, value)

    def __enter__(self) -> NoReturn:
        raise not_yours("`with connection:`, which commits at its end,")

    def __exit__(self, *_: object) -> None: ...


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
