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
from tenure.scheduler.following import Following
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
        await self._abandon()
        connection, self._connection = self._connection, None
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
                await batch.abandon()

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
        await self._abandon()
        connection = self._connection
        if connection is None or getattr(connection, "closed", False):
            connection = self._connection = await backend.connect_async()
        await backend.begin_async(connection, self._following.transaction_idle)
        batch = self._batch = AsyncBatch(connection, [])
        try:
            batch.events = await self.take(connection)
        except BaseException:
            await batch.abandon()
            raise
        return batch

    async def _abandon(self) -> None:
        batch, self._batch = self._batch, None
        if batch is not None:
            await batch.abandon()
            if batch.lost:
                connection, self._connection = self._connection, None
                await _done(connection.close())

    async def _open(self) -> None:
        await self._following.open(await self._runtime.backend())

    async def _call(self, coroutine: Any) -> Any:
        return await self._runtime.thread.call_async(coroutine)


async def _done(result: Any) -> None:
    """What one driver awaits, the other has done."""
    if inspect.isawaitable(result):
        await result
