"""Changes inside the user's own transaction: `scheduler.add(…, connection=…)`.

The store is opened on Tenure's thread, as ever. The change itself runs where the user's connection
lives: on the thread of the caller, or on the caller's loop. Whatever it awaits is the user's
connection, so if that one blocks, the coroutine never waits and is run to its end by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tenure.backends import lent
from tenure.backends.base import Backend, Joined, Joins
from tenure.errors import ConfigError, TenureError
from tenure.handed_in import made_by

T = TypeVar("T")
Work = Callable[[Joined], Coroutine[Any, Any, T]]


async def ready(backend: Backend) -> Joins:
    """On Tenure's loop: the backend, if transactions can be joined there."""
    if not isinstance(backend, Joins):
        raise ConfigError(
            f"connection= needs a store with transactions of yours, and {backend.location} has"
            " none: use SQLite or PostgreSQL, or leave it out."
        )
    await backend.identify()
    return backend


def here(backend: Joins, connection: object, work: Work[T]) -> T:
    """On this thread, which may block."""
    if _is_async(connection):
        raise ConfigError(
            f"{type(connection).__qualname__} is for asyncio, and Scheduler blocks: use"
            " AsyncScheduler, or a blocking connection."
        )
    return _to_its_end(work(backend.join(connection)))


async def there(backend: Joins, connection: Any, work: Work[T]) -> T:
    """On the running loop, which is that of the connection."""
    if lent.is_async(connection):
        done: T = await connection.run_sync(lambda lent: _to_its_end(work(backend.join(lent))))
        return done
    return await work(backend.join(connection))


def _is_async(connection: object) -> bool:
    kinds = type(connection).__mro__
    return lent.is_async(connection) or (
        made_by(connection, "psycopg") and any(kind.__name__ == "AsyncConnection" for kind in kinds)
    )


def _to_its_end(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise TenureError("a call on a connection that blocks was about to wait for something else.")
