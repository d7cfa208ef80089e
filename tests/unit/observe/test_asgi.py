"""The pages inside another application."""

from __future__ import annotations

from typing import Any

from starlette.applications import Starlette
from starlette.routing import Mount

from tenure import AsyncScheduler
from tenure.observe import asgi


async def _get(app: Any, path: str, method: str = "GET") -> tuple[int, bytes]:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "root_path": "",
        "query_string": b"",
        "headers": [(b"accept", b"text/plain")],
    }
    await app(scope, receive, send)
    return sent[0]["status"], sent[1]["body"]


async def test_mounted_pages_answer_as_the_server_does() -> None:
    scheduler = AsyncScheduler("memory://")
    app = Starlette(routes=[Mount("/tenure", asgi(scheduler))])
    assert (await _get(app, "/tenure/healthz"))[0] == 200
    assert (await _get(app, "/tenure/readyz"))[0] == 503
    async with scheduler:
        assert (await _get(app, "/tenure/readyz"))[0] in (200, 503)
        status, body = await _get(app, "/tenure/metrics")
        assert status == 200
        assert b"tenure_leader " in body
        assert await _get(app, "/tenure/healthz", "HEAD") == (200, b"")
        assert (await _get(app, "/tenure/healthz", "POST"))[0] == 405
        assert (await _get(asgi(scheduler), "/leader"))[0] in (200, 503)


async def test_as_an_application_of_its_own_it_starts_and_ends() -> None:
    messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    sent: list[str] = []

    async def receive() -> dict[str, Any]:
        return next(messages)

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await asgi(AsyncScheduler("memory://"))({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
