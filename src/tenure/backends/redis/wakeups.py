"""Wake-ups on Redis: pub/sub on a separate connection, by which others also see that we live.

Each topic has its own channel, so that a process hears only what it waits for, and not every lock
that is released. Messages are lost whenever the connection is, so everything also polls. A flooded
channel is not listened to for a while (throttle.py). In a cluster the connection leads to the node
that has the namespace; messages reach all nodes. If the user may not subscribe, subscribers are
called every second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from redis import exceptions

from tenure.backends.redis.client import FAILURES, bounded, close
from tenure.backends.redis.keys import Keys
from tenure.backends.redis.target import Target, again
from tenure.backends.redis.topology import home
from tenure.backends.shared.driver_calls import ended
from tenure.backends.shared.throttle import Floods, ThrottledCallbacks
from tenure.backends.shared.tls_close import finished, said
from tenure.errors import StoreError
from tenure.process.clock import Clock

RETRY = 0.5
SILENCE = 2.0
POLL = 1.0
"""How many seconds pass between two calls of all subscribers, if we may not subscribe."""


class RedisWakeups:
    """Calls back on messages; knows the server's run and our client id on it."""

    def __init__(self, target: Target, client: Any, namespace: str, clock: Clock) -> None:
        self._target = target
        self._client = client
        self._clock = clock
        self.home = client
        """A client for the server that has this namespace; in a cluster, one of its nodes."""
        self._deaf = False
        self.channel = Keys(namespace, target.prefix).wake
        self.client_id: int | None = None
        self.run = ""
        self._callbacks = ThrottledCallbacks()
        self._floods = Floods(self._look, self._hear_again)
        self._listening: Any = None
        self._writer: asyncio.StreamWriter | None = None
        """The stream of the connection that listens, from inside the driver."""
        self._telling: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None

    def channel_of(self, topic: str) -> str:
        return f"{self.channel}:{topic}"

    def subscribe(self, topic: str, callback: Callable[[], None]) -> Callable[[], None]:
        new = topic not in self._callbacks.topics
        stop = self._callbacks.subscribe(topic, callback)
        if new:
            self._tell("SUBSCRIBE", self.channel_of(topic))

        def unsubscribe() -> None:
            stop()
            if topic not in self._callbacks.topics:
                self._tell("UNSUBSCRIBE", self.channel_of(topic))
                self._floods.forget(self._channels)

        return unsubscribe

    @property
    def _channels(self) -> set[str]:
        """The channels that we want to hear; the first one even without topics."""
        return {self.channel, *map(self.channel_of, self._callbacks.topics)}

    def _look(self, channel: str) -> None:
        self._callbacks.call(channel.removeprefix(f"{self.channel}:"))

    def _hear_again(self, channel: str) -> None:
        """Listen again after a flood. The server confirms that, and its subscribers are called."""
        if channel in self._channels:
            self._tell("SUBSCRIBE", channel)

    def _tell(self, what: str, channel: str) -> None:
        """Subscribe or unsubscribe. If that fails, listening fails too, and the next connection
        subscribes to everything."""

        async def send(connection: Any) -> None:
            # Not with the driver's subscribe(), which would reconnect by itself.
            if self._listening is None or not connection.is_connected:
                return
            with suppress(StoreError, AttributeError):  # closed while it was sent
                await bounded(connection.send_command(what, channel))

        if self._listening is not None and not self._deaf:
            task = asyncio.get_running_loop().create_task(send(self._listening.connection))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    async def _leave(self, listening: Any) -> None:
        await self._stop_listening(listening)
        # If a read is cancelled, the driver begins to close the connection but does not wait.
        if self._writer is not None:
            await said(self._writer)

    async def open(self) -> None:
        listening = await self._listen()
        self._task = asyncio.create_task(self._watch(listening), name="tenure wake-ups")

    async def close(self) -> None:
        task, self._task = self._task, None
        self._callbacks.close()
        self._floods.close()
        await ended(*self._telling, *([task] if task is not None else []))
        if self.home is not self._client:
            await close(self.home)

    async def look(self) -> None:
        """Learn which server this is, and its run id: client ids mean nothing on another."""
        if self._target.kind == "cluster":
            # For this, the cluster's client has to find out where the slot is now.
            await bounded(self._client.exists(self.channel))
            if self._moved():
                if self.home is not self._client:
                    await close(self.home)
                self.home = await home(self._target, self._client, self.channel)
        server = await bounded(self.home.info("server"))
        self.run = str(server["run_id"])

    def _moved(self) -> bool:
        """Has the namespace moved to another node, as far as the cluster's client knows?"""
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
            # The client id first: once it listens, the connection takes no other commands.
            await bounded(listening.connect())
            self._writer = getattr(listening.connection, "_writer", None)
            # No retry: a connection that the driver replaced silently would have another id.
            listening.connection.retry = again(0)
            self.client_id = await self._ask(listening, "CLIENT", "ID")
            self._listening = listening
            wanted = sorted(channel for channel in self._channels if channel not in self._floods)
            if wanted:
                await bounded(listening.subscribe(*wanted))
                self._deaf = await self._ask(listening) is None
        except BaseException:
            await self._stop_listening(listening)
            raise
        return listening

    async def _ask(self, listening: Any, *command: str) -> Any:
        """The answer; None if we lack the right."""
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
            listening.connection.retry = again(1)  # as usual: it goes back to the pool
        with suppress(StoreError):
            await bounded(listening.aclose())

    async def _next(self, listening: Any) -> Any:
        """The next message; None if none comes for a while."""
        while True:
            heard = await listening.parse_response(block=False, timeout=SILENCE)
            if heard is None or heard[0] != "message" or str(heard[1]) not in self._floods:
                return heard
            # Otherwise it was sent before our UNSUBSCRIBE; there may be thousands of these.

    async def _pass_on(self, channel: str, listening: Any) -> None:
        self._look(channel)
        if self._floods.heard(channel):
            # At once: every moment more of the flood is on its way.
            await bounded(listening.connection.send_command("UNSUBSCRIBE", channel))

    async def _watch(self, listening: Any) -> None:
        asked = False
        while True:
            try:
                if listening is None:
                    listening, asked = await self._listen(), False
                    self._callbacks.call_all()  # messages sent meanwhile were not heard
                if self._deaf and not self._moved():
                    await self._clock.sleep(POLL)
                    await self._ask(listening, "PING")
                    self._callbacks.call_all()
                    continue
                heard = await bounded(self._next(listening))
                if (heard is None and asked) or self._moved():
                    raise TimeoutError  # our ping was not answered: the connection is dead
                asked = heard is None
                if asked:
                    await bounded(listening.ping())
                elif heard[0] in ("message", "subscribe"):
                    # "subscribe": earlier messages on this channel were not heard.
                    await self._pass_on(str(heard[1]), listening)
            except (*FAILURES, StoreError, TimeoutError) as error:
                if listening is not None and _refused(error):
                    self._deaf = True  # we may not listen to this channel
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
