"""Changes inside the user's own transaction: `scheduler.add(…, connection=…)`.

The store is opened on Tenure's thread, as ever. The change itself runs where the user's connection
lives: on the thread of the caller, or on the caller's loop. Whatever it awaits is the user's
connection, so if that one blocks, the coroutine never waits and is run to its end by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tenure.backends.base import Backend, Joined, Joins
from tenure.backends.shared import user_connections
from tenure.backends.shared.lending import to_its_end
from tenure.errors import ConfigError

T = TypeVar("T")
Work = Callable[[Joined], Coroutine[Any, Any, T]]


async def ready(backend: Backend) -> Joins:
    """On Tenure's loop: the backend, if transactions can be joined there."""
    joins = joinable(backend)
    await joins.identify()
    return joins


def joinable(backend: Backend | Joins) -> Joins:
    if not isinstance(backend, Joins):
        raise ConfigError(
            f"connection= needs a store that you have transactions on, and {backend.location} is"
            " not one: use SQLite or PostgreSQL, or leave it out."
        )
    return backend


def here(backend: Joins, connection: object, work: Work[T]) -> T:
    """On this thread, which may block."""
    if is_async(connection):
        raise ConfigError(
            f"{type(connection).__qualname__} is for asyncio, and Scheduler blocks: use"
            " AsyncScheduler, or a blocking connection."
        )
    return to_its_end(work(backend.join(connection)))


async def there(backend: Joins, connection: Any, work: Work[T]) -> T:
    """On the running loop, which is that of the connection."""
    if user_connections.is_async(connection):
        done: T = await connection.run_sync(lambda given: to_its_end(work(backend.join(given))))
        return done
    return await work(backend.join(connection))


def is_async(connection: object) -> bool:
    """Is this connection to be awaited?"""
    return user_connections.is_async(connection) or user_connections.is_async_psycopg(connection)
