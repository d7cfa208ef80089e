"""Wake-ups on Redis: pub/sub on a connection of its own, which also shows that we live.

Each topic has a channel of its own, so that a process hears only of what it waits for, and not of
every lock that anybody gives back. Messages are lost whenever the connection is; polling is the
truth. In a cluster the connection is to the node that keeps the namespace; messages reach all
nodes. A user that may not subscribe is woken every second to look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from redis import exceptions

from tenure.backends.apart import ended
from tenure.backends.callbacks import Callbacks
from tenure.backends.goodbye import finished, said
from tenure.backends.redis.client import FAILURES, bounded, close
from tenure.backends.redis.target import Target, again
from tenure.backends.redis.topology import home
from tenure.clock import Clock
from tenure.errors import StoreError

RETRY = 0.5
SILENCE = 2.0
POLL = 1.0
"""How often all look for themselves, if we may not subscribe."""


class RedisWakeups:
    """Calls back on messages; knows the server's run and our client id on it."""

    def __init__(self, target: Target, client: Any, namespace: str, clock: Clock) -> None:
        self._target = target
        self._client = client
        self._clock = clock
        self.home = client
        """The server that keeps this namespace: of a cluster, one of its nodes."""
        self._deaf = False
        self.channel = f"tenure:{{{namespace}}}:wake"
        self.client_id: int | None = None
        self.run = ""
        self._callbacks = Callbacks()
        self._listening: Any = None
        self._writer: asyncio.StreamWriter | None = None
        """Of the connection that listens, as the driver has it."""
        self._telling: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None

    def channel_of(self, topic: str) -> str:
        return f"{self.channel}:{topic}"

    def subscribe(self, topic: str, callback: Callable[[], None]) -> Callable[[], None]:
        new = topic not in self._callbacks.topics
        stop = self._callbacks.subscribe(topic, callback)
        if new:
            self._tell("SUBSCRIBE", topic)

        def unsubscribe() -> None:
            stop()
            if topic not in self._callbacks.topics:
                self._tell("UNSUBSCRIBE", topic)

        return unsubscribe

    def _tell(self, what: str, topic: str) -> None:
        """Have the server send what we want by now. If that fails, so does listening, and what
        listens next asks for all of it."""

        async def send(connection: Any) -> None:
            # Not through the driver's subscribe(), which would connect anew by itself.
            if self._listening is None or not connection.is_connected:
                return
            with suppress(StoreError, AttributeError):  # closed while it was sent
                await bounded(connection.send_command(what, self.channel_of(topic)))

        if self._listening is not None and not self._deaf:
            task = asyncio.get_running_loop().create_task(send(self._listening.connection))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    async def _leave(self, listening: Any) -> None:
        await self._stop_listening(listening)
        # When a read is cancelled the driver closes the connection, and does not wait for that.
        if self._writer is not None:
            await said(self._writer)

    async def open(self) -> None:
        listening = await self._listen()
        self._task = asyncio.create_task(self._watch(listening), name="tenure wake-ups")

    async def close(self) -> None:
        task, self._task = self._task, None
        await ended(*self._telling, *([task] if task is not None else []))
        if self.home is not self._client:
            await close(self.home)

    async def look(self) -> None:
        """Which server this is, and which run of it: client ids mean nothing elsewhere."""
        if self._target.kind == "cluster":
            # The cluster's client has to find the slot for this, wherever it is by now.
            await bounded(self._client.exists(self.channel))
            if self._moved():
                if self.home is not self._client:
                    await close(self.home)
                self.home = await home(self._target, self._client, self.channel)
        server = await bounded(self.home.info("server"))
        self.run = str(server["run_id"])

    def _moved(self) -> bool:
        """Has the namespace gone to another node, as far as the cluster's client knows?"""
        if self._target.kind != "cluster":
            return False
        node = self._client.get_node_from_key(self.channel)
        if self.home is self._client or node is None:
            return True
        at = self.home.connection_pool.connection_kwargs
        return (at["host"], at["port"]) != (node.host, node.port)

    async def _listen(self) -> Any:
        await self.look()
        listening = self.home.pubsub()
        try:
            # Its own id first: a connection that listens can be asked nothing else.
            await bounded(listening.connect())
            self._writer = getattr(listening.connection, "_writer", None)
            # One that the driver made anew behind our back would have another id.
            listening.connection.retry = again(0)
            self.client_id = await self._ask(listening, "CLIENT", "ID")
            self._listening = listening
            wanted = map(self.channel_of, self._callbacks.topics)
            await bounded(listening.subscribe(self.channel, *wanted))
            self._deaf = await self._ask(listening) is None
        except BaseException:
            await self._stop_listening(listening)
            raise
        return listening

    async def _ask(self, listening: Any, *command: str) -> Any:
        """Its answer; None if we have no right to one."""
        if command:
            await bounded(listening.connection.send_command(*command))
        try:
            return await bounded(listening.connection.read_response(push_request=True))
        except StoreError as error:
            if _refused(error):
                return None
            raise

    async def _stop_listening(self, listening: Any) -> None:
        self.client_id = self._listening = None
        if listening.connection is not None:
            listening.connection.retry = again(1)  # it goes back to the pool
        with suppress(StoreError):
            await bounded(listening.aclose())

    async def _watch(self, listening: Any) -> None:
        asked = False
        while True:
            try:
                if listening is None:
                    listening, asked = await self._listen(), False
                    self._callbacks.call_all()  # whatever was said meanwhile was not heard
                if self._deaf and not self._moved():
                    await self._clock.sleep(POLL)
                    await self._ask(listening, "PING")
                    self._callbacks.call_all()
                    continue
                hearing = listening.parse_response(block=False, timeout=SILENCE)
                heard = await bounded(hearing)  # a line that broke is made anew in it
                if (heard is None and asked) or self._moved():
                    raise TimeoutError  # the line is dead, though nobody said so
                asked = heard is None
                if asked:
                    await bounded(listening.ping())
                elif heard[0] in ("message", "subscribe"):
                    # Subscribed: what was said until now was not heard.
                    self._callbacks.call(str(heard[1]).removeprefix(f"{self.channel}:"))
            except (*FAILURES, StoreError, TimeoutError) as error:
                if listening is not None and _refused(error):
                    self._deaf = True  # on this channel we may not listen
                    continue
                if listening is not None:
                    await self._stop_listening(listening)
                    listening = None
                await self._clock.sleep(RETRY)
            except asyncio.CancelledError:
                if listening is not None:
                    await finished(self._leave(listening))
                raise


def _refused(error: Exception) -> bool:
    return isinstance(error.__cause__, exceptions.NoPermissionError)
