"""Wake-ups on Redis: pub/sub on a connection of its own, which also shows that we live.

Messages are lost whenever that connection is; polling is the truth.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from redis import exceptions

from tenure.backends.callbacks import Callbacks
from tenure.backends.redis.client import LIMIT, bounded
from tenure.clock import Clock
from tenure.errors import StoreError

RETRY = 0.5
SILENCE = 2.0


class RedisWakeups:
    """Calls back on messages; knows the server's run and our client id on it."""

    def __init__(self, client: Any, namespace: str, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self.channel = f"tenure:{{{namespace}}}:wake"
        self.client_id: int | None = None
        self.run = ""
        self._callbacks = Callbacks()
        self._task: asyncio.Task[None] | None = None

    def subscribe(self, topic: str, callback: Callable[[], None]) -> Callable[[], None]:
        return self._callbacks.subscribe(topic, callback)

    async def open(self) -> None:
        await self.look()
        listening = await self._listen()
        self._task = asyncio.create_task(self._watch(listening), name="tenure wake-ups")

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def look(self) -> None:
        """Which server this is, and which run of it: client ids mean nothing elsewhere."""
        server = await bounded(self._client.info("server"))
        self.run = str(server["run_id"])

    async def _listen(self) -> Any:
        listening = self._client.pubsub()
        try:
            # Its own id first: a connection that listens can be asked nothing else.
            await bounded(listening.connect())
            await bounded(listening.connection.send_command("CLIENT", "ID"))
            self.client_id = int(await bounded(listening.connection.read_response()))
            await bounded(listening.subscribe(self.channel))
        except BaseException:
            await self._stop_listening(listening)
            raise
        return listening

    async def _stop_listening(self, listening: Any) -> None:
        self.client_id = None
        with suppress(exceptions.RedisError, OSError, TimeoutError):
            async with asyncio.timeout(LIMIT):
                await listening.aclose()

    async def _watch(self, listening: Any) -> None:
        asked = False
        while True:
            try:
                if listening is None:
                    await self.look()
                    listening, asked = await self._listen(), False
                    self._callbacks.call_all()  # whatever was said meanwhile was not heard
                heard = await listening.parse_response(block=False, timeout=SILENCE)
                if heard is None and asked:
                    raise TimeoutError  # the line is dead, though nobody said so
                asked = heard is None
                if asked:
                    await bounded(listening.ping())
                elif heard[0] == "message":
                    self._callbacks.call(str(heard[2]))
            except (exceptions.RedisError, OSError, StoreError, TimeoutError):
                if listening is not None:
                    await self._stop_listening(listening)
                    listening = None
                await self._clock.sleep(RETRY)
            except asyncio.CancelledError:
                if listening is not None:
                    await self._stop_listening(listening)
                raise
