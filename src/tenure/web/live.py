"""Tells open pages that something has changed; they then ask for their content.

One watch for all of them looks once a second, while anybody looks. It is no subscriber to the runs'
wake-ups: of these a store calls only a few, and they are meant for workers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from typing import Any

from tenure.backends.base import SCHEDULES
from tenure.errors import TenureError
from tenure.node.names import LEADER, PRESENCE
from tenure.printable import one_line
from tenure.process.clock import Clock
from tenure.web.reading import Reader, Store

EVERY = 1.0
BEATS = 5
"""After so many looks pages hear from us in any case, so that they notice if they do not."""
LASTS = 15.0
"""Seconds after which a page is asked to connect again. A server that stops waits for its
connections and tells nobody; but it takes no new ones."""
MOST = 200
CLUSTER, RUNS, CHANGES = "cluster", "runs", "schedules"
_logger = logging.getLogger("tenure.web")


class Live:
    """The watch, and those who follow it."""

    def __init__(self, reader: Reader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._followers: set[asyncio.Queue[str | None]] = set()
        self._watch: asyncio.Task[None] | None = None
        self._seen: dict[str, object] = {}
        self._touched: set[str] = set()

    @property
    def full(self) -> bool:
        return len(self._followers) >= MOST

    async def follow(self) -> AsyncIterator[str]:
        """Server-sent events, until the browser goes away, the server stops, or for a while."""
        queue: asyncio.Queue[str | None] = asyncio.Queue(maxsize=10)
        until = self._clock.monotonic() + LASTS
        self._followers.add(queue)
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._watching(), name="tenure-dashboard")
        try:
            yield "retry: 1000\n" + _message("hello", "")
            while (message := await queue.get()) is not None:
                yield message
                if self._clock.monotonic() > until:
                    yield _message("again", "")
                    break
        finally:
            self._followers.discard(queue)

    def end(self) -> None:
        """Let all pages go: a server that stops would wait for them."""
        for queue in self._followers:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(None)

    async def _watching(self) -> None:
        unsubscribe: Callable[[], None] | None = None
        looks, failing = 0, False
        try:
            while self._followers:
                try:
                    if unsubscribe is None:
                        unsubscribe = await self._reader.ask(self._subscribe)
                    changed = await self._reader.ask(self._look)
                except TenureError as error:
                    self._tell(_message("trouble", one_line(error)))
                except Exception as error:
                    # A defect. Pages say so, and the watch goes on.
                    if not failing:
                        _logger.exception("the dashboard cannot see what changes")
                    failing = True
                    self._tell(_message("trouble", f"{type(error).__name__}"))
                else:
                    failing = False
                    looks += 1
                    if changed:
                        self._tell(_message("changed", " ".join(sorted(changed))))
                    elif looks % BEATS == 0:
                        self._tell(_message("beat", ""))
                await self._clock.sleep(EVERY)
        finally:
            if unsubscribe is not None:
                with suppress(RuntimeError):
                    await self._reader.ask(_ended(unsubscribe))

    async def _subscribe(self, store: Store) -> Callable[[], None]:
        return store.wakeups.subscribe(SCHEDULES, lambda: self._touched.add(CHANGES))

    async def _look(self, store: Store) -> set[str]:
        leader = await store.leases.read(LEADER)
        nodes = await store.leases.all(PRESENCE)
        backlog = await store.schedules.backlog(LEADER)
        newest = await store.overview.runs(limit=1)
        seen: dict[str, object] = {
            CLUSTER: (
                leader and (leader.holder, leader.term, leader.live),
                [(node.name, node.live) for node in nodes],
                backlog.term,
            ),
            RUNS: (backlog.waiting, backlog.claimed, [run.id for run in newest]),
        }
        touched, self._touched = self._touched, set()
        changed = {topic for topic, now in seen.items() if self._seen.get(topic, now) != now}
        self._seen = seen
        return changed | touched

    def _tell(self, message: str) -> None:
        for queue in self._followers:
            if not queue.full():  # who does not read them gets the next
                queue.put_nowait(message)


def _ended(unsubscribe: Callable[[], None]) -> Callable[[Store], Coroutine[Any, Any, None]]:
    async def end(_: Store) -> None:
        unsubscribe()

    return end


def _message(event: str, data: str) -> str:
    return f"event: {event}\ndata: {data}\n\n"
