"""The HTTP API as an application mounts it, on a real store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from tenure import AsyncScheduler
from tenure.web import api
from tenure.web.api.problems import missing

PROBLEM = "application/problem+json"


class Guard:
    """What security says before the API is asked."""

    def __init__(self, app: ASGIApp, **state: Any) -> None:
        self._app = app
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._state:
            scope["state"] = {**scope.get("state", {}), **self._state}
        await self._app(scope, receive, send)


def application(scheduler: AsyncScheduler, **state: Any) -> ASGIApp:
    mounted = Starlette(
        routes=[Mount("/api", routes=api.routes(scheduler))],
        exception_handlers={404: _not_mounted},
    )
    return Guard(mounted, **state)


async def _not_mounted(request: Request, error: Exception) -> Response:
    """A path with a line break in it is no path of a mount: that is the application's to answer."""
    return missing("There is nothing under this path.").response()


class Api:
    """A client of the API."""

    def __init__(self, app: ASGIApp) -> None:
        self.client = TestClient(app, raise_server_exceptions=False)

    def ask(self, method: str, path: str, **options: Any) -> Any:
        return self.client.request(method, f"/api{path}", **options)

    def get(self, path: str, **query: Any) -> Any:
        """What is answered with 200."""
        answer = self.ask("GET", path, params=query)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "application/json"
        return answer.json()

    def post(self, path: str, body: object = None, status: int = 200, **headers: str) -> Any:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = self.ask("POST", path, json=body, headers=named)
        assert answer.status_code == status, answer.text
        return answer.json()

    def etag(self, path: str) -> str:
        answer = self.ask("GET", path)
        assert answer.status_code == 200, answer.text
        return str(answer.headers["etag"])

    def refused(
        self, status: int, method: str, path: str, code: str | None = None, **options: Any
    ) -> Any:
        """The problem that is answered."""
        answer = self.ask(method, path, **options)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == PROBLEM
        told = answer.json()
        assert told["status"] == status
        assert told["type"] == "about:blank"
        assert told["title"]
        assert told["detail"]
        assert code in (None, told["code"])
        return told | {"headers": answer.headers}


def named(*segments: object) -> str:
    return "".join(f"/{quote(str(each), safe='')}" for each in segments)


@contextmanager
def serving(url: str, **state: Any) -> Iterator[Api]:
    scheduler = AsyncScheduler(url)
    try:
        yield Api(application(scheduler, **state))
    finally:
        asyncio.run(scheduler.stop())
