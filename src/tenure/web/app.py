"""`dashboard(scheduler)`: an ASGI application, to be served alone or mounted into another."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from tenure.errors import NotFound, StoreError, StoreUnavailable, TenureError
from tenure.process.clock import SystemClock
from tenure.scheduler.async_scheduler import AsyncScheduler
from tenure.web import api
from tenure.web.forecast import Forecaster
from tenure.web.live import Live
from tenure.web.pages import (
    actions,
    audit,
    cluster,
    events,
    forecast,
    leases,
    login,
    occurrence,
    previews,
    runs,
    schedule,
    schedules,
)
from tenure.web.reading import Reader
from tenure.web.rendering import page
from tenure.web.security.attempts import Attempts
from tenure.web.security.guard import Guard, Refused, problem, protect
from tenure.web.security.policy import Policy
from tenure.web.security.sessions import Sessions

_STATIC = Path(__file__).parent / "static"


def dashboard(
    scheduler: AsyncScheduler,
    *,
    token: str | None = None,
    allow_changes: bool = False,
    hosts: Sequence[str] = (),
    user_header: str | None = None,
    proxies: Sequence[str] = (),
    https: bool = False,
) -> Starlette:
    """The dashboard of this scheduler's store. The scheduler need not be started or have tasks.

    Args:
        scheduler: names the store; its own thread does all that is asked of the store.
        token: who knows it may come in; at least 16 characters. Without one, and without a proxy,
            only this machine's own users may.
        allow_changes: pages and API may pause, run, cancel …; otherwise they only show.
        hosts: names under which browsers reach it, such as "tenure.example.com".
        user_header: the header in which an authenticating proxy names the user.
        proxies: the addresses or networks from which that header is believed.
        https: browsers reach it by https: the cookie is sent by no other way.
    """
    policy = Policy.of(
        token=token,
        allow_changes=allow_changes,
        hosts=hosts,
        user_header=user_header,
        proxies=proxies,
        https=https,
    )
    system = SystemClock()
    reader, sessions = Reader(scheduler), Sessions(policy.token, system)
    live, attempts = Live(reader, system), Attempts(system)

    async def follow(request: Request) -> Response:
        if live.full:
            return Response("Too many pages are open.\n", HTTPStatus.SERVICE_UNAVAILABLE)
        return StreamingResponse(
            live.follow(), media_type="text/event-stream", headers={"x-accel-buffering": "no"}
        )

    routes: list[BaseRoute] = [
        *cluster.routes(reader),
        *schedules.routes(reader),
        *schedule.routes(reader),
        *occurrence.routes(reader),
        *previews.routes(reader),
        *runs.routes(reader),
        *forecast.routes(reader, Forecaster(reader, system)),
        *leases.routes(reader),
        *events.routes(reader),
        *audit.routes(reader),
        *actions.routes(reader, sessions),
        *login.routes(policy, sessions, attempts),
        Route("/live", follow),
        Mount("/static", StaticFiles(directory=_STATIC)),
        Mount("/api", routes=api.routes(scheduler)),
    ]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, policy, sessions, attempts=attempts, page=_refusal)],
        exception_handlers={
            HTTPException: _http_error,
            NotFound: _not_found,
            TenureError: _tenure_error,
            Refused: _refused,
            Exception: _defect,
        },
    )
    app.state.live = live  # for the server, which ends it
    return app


def _refusal(request: Request, status: HTTPStatus, reason: str) -> Response:
    return _error(request, status, status.phrase, reason)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    answer = _refusal(request, error.status, str(error))
    if error.status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE):
        answer.headers["connection"] = "close"  # the rest of it is not read
    return answer


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    detail = error.detail if error.detail != status.phrase else ""
    if status is HTTPStatus.NOT_FOUND and not detail:
        detail = "There is no such page."
    return _error(request, status, status.phrase, detail)


async def _not_found(request: Request, error: Exception) -> Response:
    return _error(request, HTTPStatus.NOT_FOUND, "Not found", str(error))


_CODES = {
    HTTPStatus.NOT_FOUND: "not_found",
    HTTPStatus.METHOD_NOT_ALLOWED: "method",
    HTTPStatus.CONFLICT: "conflict",
    HTTPStatus.INTERNAL_SERVER_ERROR: "internal",
    HTTPStatus.SERVICE_UNAVAILABLE: "store_unavailable",
}
"""For programs: the same words as the API's own."""


async def _tenure_error(request: Request, error: Exception) -> Response:
    if isinstance(error, StoreError):
        away = isinstance(error, StoreUnavailable)
        title = "The store does not answer" if away else "The store cannot be used"
        return _error(request, HTTPStatus.SERVICE_UNAVAILABLE, title, str(error))
    return _error(request, HTTPStatus.CONFLICT, "That is not possible", str(error))


async def _defect(request: Request, error: Exception) -> Response:
    text = "The log of the dashboard says more."
    answer = _error(request, HTTPStatus.INTERNAL_SERVER_ERROR, "Something went wrong", text)
    protect(answer.headers, request.state.path)  # Starlette sends it past the guard
    return answer


def _error(request: Request, status: HTTPStatus, title: str, detail: str) -> Response:
    if request.state.path.startswith("/api"):
        return problem(status, detail or title, _CODES.get(status, "refused"))
    return page(request, "error.html", status, title=title, detail=detail)
