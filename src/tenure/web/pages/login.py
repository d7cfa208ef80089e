"""Logging in with the token, and out."""

from __future__ import annotations

import logging
from http import HTTPStatus
from math import ceil

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from tenure.web.rendering import page
from tenure.web.security.attempts import Attempts
from tenure.web.security.forms import checked_form, read_form
from tenure.web.security.policy import Policy
from tenure.web.security.sessions import COOKIE, LASTS, Sessions

_logger = logging.getLogger("tenure.web")


def routes(policy: Policy, sessions: Sessions, attempts: Attempts) -> list[BaseRoute]:
    async def login(request: Request) -> Response:
        then = _inside(request.query_params.get("then", "/"))
        if request.method != "POST":
            return page(request, "login.html", then=then, problem="", needed=not policy.open)
        peer = request.client.host if request.client else "unknown"
        given = (await read_form(request)).get("token", [""])[0]
        right = sessions.is_token(given.strip())
        if not right and (wait := attempts.wait(peer)):
            text = f"Too many wrong tokens. Try again in {ceil(wait)} seconds."
            answer: Response = page(
                request,
                "login.html",
                HTTPStatus.TOO_MANY_REQUESTS,
                then=then,
                problem=text,
                needed=True,
            )
            answer.headers["retry-after"] = str(ceil(wait))
            return answer
        if not right:
            attempts.failed(peer)
            _logger.warning("dashboard.login_failed from=%s", peer)
            text = "That is not the token."
            return page(
                request, "login.html", HTTPStatus.FORBIDDEN, then=then, problem=text, needed=True
            )
        _, cookie = sessions.begin()
        root = str(request.scope.get("root_path", ""))
        answer = RedirectResponse(root + then, HTTPStatus.SEE_OTHER)
        secure = policy.https or request.url.scheme == "https"
        answer.set_cookie(
            COOKIE, cookie, LASTS, path=root or "/", httponly=True, samesite="lax", secure=secure
        )
        _logger.info("dashboard.login from=%s", peer)
        return answer

    async def logout(request: Request) -> Response:
        await checked_form(request, sessions)
        if request.state.session is not None:
            sessions.end(request.state.session)
        root = str(request.scope.get("root_path", ""))
        answer = RedirectResponse(f"{root}/login", HTTPStatus.SEE_OTHER)
        answer.delete_cookie(COOKIE, path=root or "/")
        return answer

    return [
        Route("/login", login, methods=["GET", "POST"]),
        Route("/logout", logout, methods=["POST"]),
    ]


def _inside(path: str) -> str:
    """Where to go after logging in: a page of ours, whatever the link says."""
    plain = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if plain else "/"
