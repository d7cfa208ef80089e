"""How many connections the consumers of a scheduler have: a bounded number, for which they wait.

Each keeps a connection of its own, with whatever its user has set on it, from one batch to the
next. Only if more consumers are at work than there may be connections, one that waits for events
loses its own, and makes another for its next batch.
"""

from __future__ import annotations

import threading
from typing import Any

from tenure.backends.shared.lending import Places


class ConsumerPlaces:
    """Those of one scheduler. Threads and loops may share them."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._places = Places(size, who="consumers")
        self._guard = threading.Lock()
        self._used = 0
        self._idle: dict[object, Any] = {}
        """Connections between two batches; the one that was used least recently comes first."""

    def take(self, consumer: object) -> tuple[Any, list[Any]]:
        """Waits for a place. Returns the consumer's own connection, if it still has one, and those
        of others that the caller must close."""
        self._places.take()
        return self._taken(consumer)

    async def take_async(self, consumer: object) -> tuple[Any, list[Any]]:
        await self._places.take_async()
        return self._taken(consumer)

    def give(self, consumer: object, connection: Any) -> None:
        """A batch is over. None for a connection that is closed."""
        with self._guard:
            self._used -= 1
            if connection is not None:
                self._idle[consumer] = connection
        self._places.give()

    def leave(self, consumer: object) -> Any:
        """The connection that it kept, for the caller to close."""
        with self._guard:
            return self._idle.pop(consumer, None)

    def _taken(self, consumer: object) -> tuple[Any, list[Any]]:
        with self._guard:
            self._used += 1
            own = self._idle.pop(consumer, None)
            beyond = max(0, self._used + len(self._idle) - self._size)
            return own, [self._idle.pop(other) for other in list(self._idle)[:beyond]]
