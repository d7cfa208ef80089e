"""The server of health and metrics: the standard library's, on a thread of its own.

It shares the process with heartbeats and ticks, and anyone in the network may reach it. So it does
little for anyone: one request for each connection, a few connections at a time, each for a few
seconds. When one more comes, the oldest is closed: a thousand idle connections keep no probe away.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import socket
import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from http.client import LineTooLong
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, BinaryIO

from tenure.backends.base import LeaseBackend, Stores
from tenure.errors import ConfigError
from tenure.node.node import Node
from tenure.observe.exposition import exposition
from tenure.observe.pages import Pages
from tenure.observe.watch import attached, watch
from tenure.process.clock import Clock, SystemClock
from tenure.scheduler.observers import Observers, Subject

MOST_CONNECTIONS = 64
SECONDS = 5.0
"""A connection that lasts longer is closed, whatever it does."""
REQUEST_MOST = 16_384
"""In bytes, with all headers."""
LOOK_EVERY = 0.5
PORT_TAKEN = (
    "Every process needs a port of its own; port 0 takes any that is free. Processes that share a"
    " port already, such as web workers, mount tenure.observe.asgi instead."
)
WRONG_ADDRESS = (
    "Name an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all of them, and a port"
    " that this user may open."
)
_ADDRESS = re.compile(r"(?P<host>[^:\s/]+|\[[0-9A-Fa-f:.%]+\]):(?P<port>\d{1,5})")
_logger = logging.getLogger("tenure.observe")


class HealthServer:
    """An observer that serves the pages of its scheduler while that runs."""

    def __init__(self, observers: Observers, address: str) -> None:
        self.host, self.port = parse(address)
        self._pages = Pages(watch(observers), exposition(observers))
        self._serving: _Server | None = None

    @property
    def address(self) -> tuple[str, int] | None:
        """Where it listens, while it does: with port 0 the system has chosen one."""
        return None if self._serving is None else self._serving.server_address[:2]  # type: ignore[return-value]

    def starting(self, subject: Subject) -> None:
        try:
            serving = _Server(self.host, self.port, self._pages, subject.around.clock)
            serving.begin()
        except OSError as error:
            what_to_do = PORT_TAKEN if error.errno == errno.EADDRINUSE else WRONG_ADDRESS
            raise ConfigError(
                f"health={self.host}:{self.port} cannot be served: {error.strerror or error}."
                f" {what_to_do}"
            ) from error
        self._serving = serving
        host, port = serving.server_address[:2]
        _logger.info("health and metrics at http://%s:%s", host, port)

    def stores(self, stores: Stores) -> Stores:
        return stores

    def joined(self, node: Node, backends: Sequence[LeaseBackend]) -> None:
        pass

    async def leaving(self) -> None:
        pass

    def stopped(self) -> None:
        serving, self._serving = self._serving, None
        if serving is not None:
            serving.end()


def serve(observers: Observers, address: str) -> HealthServer:
    """Have this scheduler serve its health there; instead of where it did before, if it did."""
    before = attached(observers, HealthServer)
    if before is not None:
        observers.all.remove(before)
    server = HealthServer(observers, address)
    observers.all.append(server)
    return server


def parse(address: object) -> tuple[str, int]:
    """A host and a port from HOST:PORT."""
    found = _ADDRESS.fullmatch(address) if isinstance(address, str) else None
    if found is None or int(found["port"]) > 65_535:
        raise ConfigError(
            f"health={address!r} is not HOST:PORT, such as 127.0.0.1:9400, or 0.0.0.0:9400 to be"
            " reached from other machines."
        )
    return found["host"].strip("[]"), int(found["port"])


class _Server(ThreadingHTTPServer):
    allow_reuse_port = False
    request_queue_size = 1_024  # a flood of connections delays a probe, and does not refuse it

    def __init__(self, host: str, port: int, pages: Pages, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._open: dict[socket.socket, float] = {}
        """In the order in which they came."""
        self._guard = threading.Lock()
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), partial(_Handler, pages))
        self._thread = threading.Thread(
            target=self.serve_forever, args=(LOOK_EVERY,), name="tenure-health", daemon=True
        )
        _live.add(self)

    def server_bind(self) -> None:
        """Without asking a name server what this machine is called, as the library does."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = map(str, self.server_address[:2])  # type: ignore[assignment]

    def begin(self) -> None:
        try:
            self._thread.start()
        except RuntimeError as error:
            self.server_close()
            raise OSError(str(error)) from error

    def end(self) -> None:
        """Stop listening, and close what is open. Waits for no client."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # so that its thread need not look first
        self.shutdown()
        self.server_close()
        self._close_older_than(float("-inf"))
        _live.discard(self)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, client = super().get_request()
        connection.settimeout(SECONDS)
        with self._guard:
            crowd = list(self._open)[: len(self._open) + 1 - MOST_CONNECTIONS]
            self._open[connection] = self._clock.monotonic()
        for oldest in crowd:
            _cut(oldest)
        return connection, client

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        self._close_older_than(SECONDS)

    def _close_older_than(self, seconds: float) -> None:
        now = self._clock.monotonic()
        with self._guard:
            old = [each for each, since in self._open.items() if now - since > seconds]
        for each in old:
            _cut(each)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that leave or are closed: nobody need know."""
        _logger.debug("a request from %s failed", client_address)


class _Handler(BaseHTTPRequestHandler):
    server_version, sys_version = "tenure", ""

    def __init__(self, pages: Pages, *args: Any) -> None:
        self._pages = pages
        super().__init__(*args)

    def setup(self) -> None:
        super().setup()
        self.rfile: Any = _Limited(self.rfile)

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_GET  # noqa: N815

    def _answer(self) -> None:
        page = self._pages(self.command, self.path, self.headers.get("Accept", ""))
        self.send_response(page.status)
        self.send_header("Content-Type", page.kind)
        self.send_header("Content-Length", str(len(page.body)))
        self.send_header("Cache-Control", "no-store")
        if page.allow is not None:
            self.send_header("Allow", page.allow)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Probes come every few seconds."""


class _Limited:
    """What a client sends, as far as it is read: lines, up to a limit for all of them."""

    def __init__(self, behind: BinaryIO) -> None:
        self._behind = behind
        self._left = REQUEST_MOST
        self.close = behind.close

    def readline(self, size: int) -> bytes:
        line = self._behind.readline(min(size, self._left + 1))
        self._left -= len(line)
        if self._left < 0:
            raise LineTooLong("request")
        return line


def _cut(connection: socket.socket) -> None:
    """End it for its reader and writer; its thread then closes it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


_live: weakref.WeakSet[_Server] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """A forked child must not keep the port."""
    for server in list(_live):
        with suppress(OSError):
            server.socket.close()
        _live.discard(server)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
