"""The pages as an ASGI application, for programs that have a web server already."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from tenure.observe.pages import Pages

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class PagesApp:
    """To be mounted: `app.mount("/tenure", asgi(scheduler))` answers /tenure/healthz and so on."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            # As the application of a server: nothing to start, nothing else than HTTP to speak.
            if scope["type"] == "lifespan":
                await _lifespan(receive, send)
            return
        # Servers and frameworks differ in whether `path` includes where this is mounted.
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        accept = b", ".join(value for name, value in scope["headers"] if name == b"accept")
        page = self._pages(scope["method"], path, accept.decode("latin-1"))
        headers = [
            (b"content-type", page.kind.encode()),
            (b"content-length", str(len(page.body)).encode()),
            (b"cache-control", b"no-store"),
        ]
        if page.allow is not None:
            headers.append((b"allow", page.allow.encode()))
        await send({"type": "http.response.start", "status": page.status, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else page.body
        await send({"type": "http.response.body", "body": body})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
