"""`scheduler.consumer(…)`: a group's events, each read once, in the reader's own transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self

from tenure.errors import TransactionLost
from tenure.model import LoggedEvent
from tenure.scheduler import transaction
from tenure.scheduler.group_membership import Following
from tenure.scheduler.runtime import Runtime

BATCH_ENDED = (
    "this batch is over: it was committed or rolled back, or the loop has gone on. What was not"
    " committed comes again, with another batch."
)


class Batch:
    """Events that a consumer has taken, in a transaction that is open. `transaction()` ends it."""

    def __init__(self, connection: Any, events: list[LoggedEvent]) -> None:
        self.events = events
        self.lost = False
        """May its transaction still be open, though it could not be rolled back?"""
        self._connection = connection
        self._open = True

    def __iter__(self) -> Iterator[LoggedEvent]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Write with the connection that this gives. At the end of the block your writes and the
        group's position are committed together; if it raises, neither is, and the events come
        again. Only once: what is written later would be without the position, so a batch that is
        over raises `TransactionLost`."""
        if not self._open:
            raise TransactionLost(BATCH_ENDED)
        try:
            yield self._connection
            self._connection.commit()  # may fail, and leave the transaction open
            self._open = False
        except BaseException:
            self.abandon()
            raise

    def abandon(self) -> None:
        """Roll back, if it is still open: the events come again."""
        if self._open:
            self._open, self.lost = False, True
            with suppress(Exception):  # why it is abandoned matters more; closing rolls back too
                self._connection.rollback()
                self.lost = False


class Consumer:
    """One reader of a group. Use it on one thread at a time."""

    def __init__(self, runtime: Runtime, following: Following) -> None:
        self._runtime = runtime
        self._following = following
        self._connection: Any = None
        self._batch: Batch | None = None

    def __enter__(self) -> Self:
        self._runtime.forget_parent()
        self._call(self._open())
        return self

    def __exit__(self, *exc: object) -> None:
        self._end(self._batch)
        connection = self._runtime.consumers.leave(self)
        if connection is not None:
            connection.close()
        self._call(self._following.close())

    def __iter__(self) -> Iterator[Batch]:
        """The next events, again and again: it waits for them. Ends after `stop()`, or after `wait`
        seconds without an event."""
        following = self._following
        while self._call(following.wait()):
            batch = self._begin()
            try:
                following.took(len(batch))
                if batch.events:
                    yield batch
            finally:
                self._end(batch)

    def take(self, connection: Any, limit: int | None = None) -> list[LoggedEvent]:
        """The next events, at most `limit`, in your own transaction on your own connection: the
        group moves on when you commit."""
        following = self._following
        most = following.limit if limit is None else limit
        return transaction.here(
            following.backend,
            connection,
            lambda joined: joined.events.consume(following.topic, following.group, most),
        )

    def stop(self) -> None:
        """End the loop after the batch under way; any thread may call."""
        self._runtime.thread.loop.call_soon_threadsafe(self._following.stop)

    def _begin(self) -> Batch:
        backend = self._following.backend
        self._end(self._batch)  # if another loop over this consumer has left it open
        connection = self._connect()
        self._connection = connection
        batch = self._batch = Batch(connection, [])
        try:
            backend.begin(connection, self._following.transaction_idle)
            batch.events = self.take(connection)
        except BaseException:
            self._end(batch)
            raise
        return batch

    def _connect(self) -> Any:
        places = self._runtime.consumers
        connection, others = places.take(self)
        try:
            for other in others:
                other.close()
            if connection is None or getattr(connection, "closed", False):
                connection = self._following.backend.connect()
        except BaseException:
            places.give(self, None)
            raise
        return connection

    def _end(self, batch: Batch | None) -> None:
        """Of the present batch, if that is the one."""
        if batch is None or self._batch is not batch:
            return
        connection, self._batch, self._connection = self._connection, None, None
        try:
            batch.abandon()
            if batch.lost:
                connection.close()
        finally:
            self._runtime.consumers.give(self, None if batch.lost else connection)

    async def _open(self) -> None:
        await self._following.open(await self._runtime.backend())

    def _call(self, coroutine: Any) -> Any:
        return self._runtime.thread.call(coroutine)
