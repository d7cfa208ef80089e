"""A TCP proxy that does to a line what networks do: delay it, trickle, swallow, cut."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from contextlib import suppress
from typing import Literal, Self

Mode = Literal["pass", "slow", "trickle", "mute", "half-open", "cut"]
_CHUNK = 65536
_RESET = struct.pack("ii", 1, 0)  # close without lingering: the other end gets an RST


class Proxy:
    """Between clients and a port of this machine, on a thread of its own.

    pass        as if it was not there
    slow        everything arrives `delay` seconds later
    trickle     one byte every `delay` seconds
    mute        what clients say arrives, and nothing comes back; lines that lost an answer this way
                never bring another
    half-open   everything is taken and nothing delivered, in both directions, ends included;
                lines that lost something this way stay dead for good
    cut         lines are reset, and new ones as soon as they are made
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._mode: Mode = "pass"
        self._delay = 0.0
        self._lines: set[_Line] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port: int = self._socket.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        self._thread = threading.Thread(
            target=self._loop.run_until_complete, args=(self._serve(),), daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()
        self._loop.close()

    @property
    def lines(self) -> int:
        return len(self._lines)

    @property
    def swallowed(self) -> bool:
        """Has a line lost something to `half-open`?"""
        return any(line.dead for line in tuple(self._lines))

    @property
    def turns(self) -> list[int]:
        """Of each line: how often its client spoke after the server had, since `become`."""
        return [line.turns for line in tuple(self._lines)]

    def become(self, mode: Mode, delay: float = 0.0) -> None:
        """From now on; it has happened when this returns."""

        async def change() -> None:
            self._mode, self._delay = mode, delay
            for line in self._lines:
                line.turns, line.asked = 0, False
            if mode == "cut":
                self._cut()

        asyncio.run_coroutine_threadsafe(change(), self._loop).result()

    def lead_to(self, target: int, *, keep: bool = False) -> None:
        """Another port, for new lines; the old ones are reset, or kept."""

        async def change() -> None:
            self._target = target
            if not keep:
                self._cut()

        asyncio.run_coroutine_threadsafe(change(), self._loop).result()

    async def _serve(self) -> None:
        self._socket.setblocking(False)
        # Not a task that accepts: one that is cancelled as a client arrives would leave it open.
        self._loop.add_reader(self._socket, self._accept)
        await self._ending.wait()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self) -> None:
        try:
            client, _ = self._socket.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        line = _Line(client)
        self._lines.add(line)  # here, so that it is reset even if its task never begins
        task = self._loop.create_task(self._carry(line))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, line: _Line) -> None:
        try:
            if self._mode == "cut":
                return
            if self._mode == "half-open":
                line.dead = True
                await self._pump(line, line.client, None)
            await line.reach(self._target)
            assert line.server is not None
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(line, line.client, line.server))
                both.create_task(self._pump(line, line.server, line.client))
        except* OSError:
            if line.dead:
                await self._ending.wait()
        finally:
            line.reset()
            self._lines.discard(line)

    async def _pump(self, line: _Line, source: socket.socket, sink: socket.socket | None) -> None:
        arrived: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        delivering = asyncio.create_task(self._deliver(line, sink, arrived))
        try:
            while data := await self._loop.sock_recv(source, _CHUNK):
                line.heard(source)
                arrived.put_nowait((self._loop.time(), data))
            arrived.put_nowait((self._loop.time(), b""))
            await delivering
        finally:
            delivering.cancel()
            await asyncio.wait([delivering])

    async def _deliver(
        self,
        line: _Line,
        sink: socket.socket | None,
        arrived: asyncio.Queue[tuple[float, bytes]],
    ) -> None:
        while True:
            at, data = await arrived.get()
            ends = not data
            if self._mode == "slow":
                await asyncio.sleep(at + self._delay - self._loop.time())
            while self._mode == "trickle" and data and sink is not None:
                await self._loop.sock_sendall(sink, data[:1])
                data = data[1:]
                await asyncio.sleep(self._delay)
            if self._mode == "half-open":
                line.dead = True
            if self._mode == "mute" and sink is line.client:
                line.mute = True
            if line.dead or sink is None or (line.mute and sink is line.client):
                if ends:
                    await self._ending.wait()  # its end is not told either
            elif ends:
                sink.shutdown(socket.SHUT_WR)
                return
            else:
                await self._loop.sock_sendall(sink, data)

    def _cut(self) -> None:
        for line in self._lines:
            line.reset()
        self._lines.clear()
        for task in list(self._tasks):
            task.cancel()


class _Line:
    """A client's connection, and ours to the server on its behalf."""

    def __init__(self, client: socket.socket) -> None:
        _prepare(client)
        self.client = client
        self.server: socket.socket | None = None
        self.dead = False
        self.mute = False
        self.turns = 0
        self.asked = False

    def heard(self, source: socket.socket) -> None:
        asks = source is self.client
        self.turns += asks and not self.asked
        self.asked = asks

    async def reach(self, port: int) -> None:
        self.server = socket.socket()
        _prepare(self.server)
        await asyncio.get_running_loop().sock_connect(self.server, ("127.0.0.1", port))

    def reset(self) -> None:
        for end in (self.client, self.server):
            if end is not None and end.fileno() >= 0:
                with suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                loop = asyncio.get_running_loop()
                loop.remove_reader(end)
                loop.remove_writer(end)
                end.close()


def _prepare(end: socket.socket) -> None:
    end.setblocking(False)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # no delay but the one asked for
