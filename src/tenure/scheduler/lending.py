"""Who lends connections to the transactional tasks of a process; checked before it starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tenure.backends.base import Backend, Joins, Lender, Lends
from tenure.backends.engine_lending import EngineLender, is_engine
from tenure.errors import ConfigError
from tenure.settings import Settings
from tenure.tasks.executor import Wrapper
from tenure.tasks.registry import Tasks
from tenure.tasks.task import is_async


def lender(backend: Backend, settings: Settings, store: object = None) -> Lender | None:
    """Of the engine that was handed in as the `store`, else of the store itself; None if it lends
    nothing."""
    if isinstance(backend, Joins) and is_engine(store):
        return EngineLender(store, backend, settings.lent_hold)
    if isinstance(backend, Lends):
        return backend.lender(settings.lent, settings.lent_hold)
    return None


def check_lending(
    tasks: Tasks,
    settings: Settings,
    make: Callable[[], Backend],
    wrappers: Iterable[Wrapper],
    store: object,
) -> None:
    """Refuse transactional tasks that this node would execute and nobody lends to. Opens nothing:
    the backend that `make` makes for this is dropped."""
    found = [t for t in tasks if t.options.transactional and settings.executes(t.options.queue)]
    if not found:
        return
    backend = make()
    lends = lender(backend, settings, store)
    if lends is None:
        raise ConfigError(
            f"task {found[0].name!r} is transactional, and {backend.location} lends no connection"
            " that its effects and its run could commit on. Use SQLite or PostgreSQL, or leave out"
            " transactional=True; in tests, testing(scheduler, lend=…) supplies connections."
        )
    awaits = any(map(is_async, wrappers))
    for task in found:
        refusal = lends.refusal(coroutine=task.is_async)
        if refusal is not None:
            raise ConfigError(f"task {task.name!r} is transactional, and {refusal}")
        if awaits and not task.is_async:
            raise ConfigError(
                f"task {task.name!r} is transactional and a plain function, and around() has a"
                " coroutine function: all tasks then run on the loop, which this one would block."
                " Make the task a coroutine function, or the wrapper a plain one."
            )
