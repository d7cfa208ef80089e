"""Serve the dashboard by itself, with uvicorn: alone, or beside a node in the same process."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette

from tenure.errors import ConfigError
from tenure.scheduler.async_scheduler import AsyncScheduler
from tenure.web.client_timeouts import MOST_CONNECTIONS, PunctualProtocol
from tenure.web.security.addresses import is_loopback

PORT = 8642
STOP_WITHIN = 3


def read_bind(text: str) -> tuple[str, int]:
    """HOST:PORT, HOST or :PORT."""
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname or "127.0.0.1", parts.port
    except ValueError as error:
        raise ConfigError(f"{text!r} is not HOST:PORT: {error}") from None
    if not text or parts.path or parts.username is not None:
        raise ConfigError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:{PORT}")
    return host, PORT if port is None else port


def check_bind(host: str, *, guarded: bool) -> None:
    """Beyond this machine only with a lock on the door."""
    if not guarded and not is_loopback(host):
        raise ConfigError(
            f"{host} can be reached from other machines, so a token is needed: put one of at least"
            " 16 characters into a file and name it with --token-file, or into"
            " $TENURE_DASHBOARD_TOKEN. Or have a proxy log people in (--user-header, --proxy)."
        )


def listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"{host}:{port} cannot be listened to: {error.strerror or error}"
        ) from None
    return listener


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


class _Server(uvicorn.Server):
    """Lets open pages go first, instead of waiting for them and cutting them off."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        app = self.config.app
        if isinstance(app, Starlette):
            app.state.live.end()
        await super().shutdown(sockets)


def server(app: Starlette) -> uvicorn.Server:
    """Its limits keep slow and many clients from taking more than their share."""
    return _Server(
        uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=2 * MOST_CONNECTIONS,  # of which those that wait were let go
            timeout_keep_alive=10,
            timeout_graceful_shutdown=STOP_WITHIN,
            h11_max_incomplete_event_size=64 * 1024,
            http=PunctualProtocol,
            ws="none",
        )
    )


async def serve(serving: uvicorn.Server, listener: socket.socket, access: AsyncScheduler) -> None:
    """Until it is told to stop; then the store is let go, too."""
    try:
        await serving.serve([listener])
    finally:
        await access.stop()


@contextmanager
def beside(app: Starlette, listener: socket.socket, access: AsyncScheduler) -> Iterator[None]:
    """Serve on a thread of its own while the block runs: a node, say, whose threads and
    connections are others."""
    serving = server(app)
    thread = threading.Thread(
        target=lambda: asyncio.run(serve(serving, listener, access)),
        name="tenure-dashboard",
        daemon=True,
    )
    thread.start()
    try:
        yield
    finally:
        serving.should_exit = True
        thread.join(STOP_WITHIN + 2)
