"""`AsyncScheduler.consumer(…)`: as consumer.py, awaited."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Self

from tenure.errors import TransactionLost
from tenure.model import LoggedEvent
from tenure.scheduler import transaction
from tenure.scheduler.consumer import BATCH_ENDED
from tenure.scheduler.group_membership import Following
from tenure.scheduler.runtime import Runtime


class AsyncBatch:
    """Events that a consumer has taken, in a transaction that is open. `transaction()` ends it."""

    def __init__(self, connection: Any, events: list[LoggedEvent]) -> None:
        self.events = events
        self.lost = False
        self._connection = connection
        self._open = True

    def __iter__(self) -> Iterator[LoggedEvent]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """As `Batch.transaction`. The connection is a psycopg AsyncConnection, or sqlite3's, which
        is not awaited."""
        if not self._open:
            raise TransactionLost(BATCH_ENDED)
        try:
            yield self._connection
            await _done(self._connection.commit())
            self._open = False
        except BaseException:
            await self.abandon()
            raise

    async def abandon(self) -> None:
        if self._open:
            self._open, self.lost = False, True
            with suppress(Exception):
                await _done(self._connection.rollback())
                self.lost = False


class AsyncConsumer:
    """One reader of a group. Use it in one task at a time."""

    def __init__(self, runtime: Runtime, following: Following) -> None:
        self._runtime = runtime
        self._following = following
        self._connection: Any = None
        self._batch: AsyncBatch | None = None

    async def __aenter__(self) -> Self:
        self._runtime.forget_parent()
        await self._call(self._open())
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._end(self._batch)
        connection = self._runtime.consumers.leave(self)
        if connection is not None:
            await _done(connection.close())
        await self._call(self._following.close())

    async def __aiter__(self) -> AsyncIterator[AsyncBatch]:
        following = self._following
        while await self._call(following.wait()):
            batch = await self._begin()
            try:
                following.took(len(batch))
                if batch.events:
                    yield batch
            finally:
                await self._end(batch)

    async def take(self, connection: Any, limit: int | None = None) -> list[LoggedEvent]:
        following = self._following
        most = following.limit if limit is None else limit
        return await transaction.there(
            following.backend,
            connection,
            lambda joined: joined.events.consume(following.topic, following.group, most),
        )

    def stop(self) -> None:
        """End the loop after the batch under way."""
        self._runtime.thread.loop.call_soon_threadsafe(self._following.stop)

    async def _begin(self) -> AsyncBatch:
        backend = self._following.backend
        await self._end(self._batch)  # if another loop over this consumer has left it open
        connection = await self._connect()
        self._connection = connection
        batch = self._batch = AsyncBatch(connection, [])
        try:
            await backend.begin_async(connection, self._following.transaction_idle)
            batch.events = await self.take(connection)
        except BaseException:
            await self._end(batch)
            raise
        return batch

    async def _connect(self) -> Any:
        places = self._runtime.consumers
        connection, others = await places.take_async(self)
        try:
            for other in others:
                await _done(other.close())
            if connection is None or getattr(connection, "closed", False):
                connection = await self._following.backend.connect_async()
        except BaseException:
            places.give(self, None)
            raise
        return connection

    async def _end(self, batch: AsyncBatch | None) -> None:
        """Of the present batch, if that is the one."""
        if batch is None or self._batch is not batch:
            return
        connection, self._batch, self._connection = self._connection, None, None
        try:
            await batch.abandon()
            if batch.lost:
                await _done(connection.close())
        finally:
            self._runtime.consumers.give(self, None if batch.lost else connection)

    async def _open(self) -> None:
        await self._following.open(await self._runtime.backend())

    async def _call(self, coroutine: Any) -> Any:
        return await self._runtime.thread.call_async(coroutine)


async def _done(result: Any) -> None:
    """What one driver awaits, the other has done."""
    if inspect.isawaitable(result):
        await result
