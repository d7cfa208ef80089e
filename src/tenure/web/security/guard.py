"""The middleware before every page and the API.

In this order: is the request meant for us (Host), small enough, from a page of ours (Origin); who
is asking; may they change something. What it found out is in `request.state`: `actor`,
`may_write`, `session`, what forms are `bound` to and their `proof`, and `said`, what the last
action has to say.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable, MutableMapping
from http import HTTPStatus
from math import ceil
from typing import Any
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tenure.printable import one_line
from tenure.web.security.addresses import is_loopback, is_our_host, is_our_origin
from tenure.web.security.attempts import Attempts
from tenure.web.security.policy import Policy
from tenure.web.security.sessions import COOKIE, FORMS, Session, Sessions

_logger = logging.getLogger("tenure.web")
LARGEST_BODY = 2 * 1024 * 1024
LONGEST_NAME = 100
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
PUBLIC = ("/login", "/static/")
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self';"
    " img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none';"
    " base-uri 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    # Not no-referrer: browsers would then send `Origin: null` with our own forms.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Refused(Exception):
    """A request that is not answered, and why."""

    def __init__(self, status: HTTPStatus, reason: str, code: str = "refused") -> None:
        super().__init__(reason)
        self.status = status
        self.code = code


class Guard:
    """Refuses, and says who is asking."""

    def __init__(
        self,
        app: ASGIApp,
        policy: Policy,
        sessions: Sessions,
        *,
        attempts: Attempts,
        page: Callable[[Request, HTTPStatus, str], Response],
    ) -> None:
        self._app = app
        self._policy = policy
        self._sessions = sessions
        self._attempts = attempts
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        path = path_of(scope)
        scope["state"] = {**scope.get("state", {}), "actor": "", "may_write": False}
        scope["state"] |= {"session": None, "bound": "", "proof": "", "path": path, "said": ""}
        answer: ASGIApp = self._app
        try:
            self._check(scope)
            if not self._recognise(scope) and not path.startswith(PUBLIC):
                answer = _to_login(scope, path, by_token=self._policy.token is not None)
            else:
                self._check_change(scope, path)
        except Refused as refused:
            answer = self._refusal(scope, path, refused)
        await answer(scope, _limited(receive), self._with_headers(scope, path, send))

    def _with_headers(self, scope: Scope, path: str, send: Send) -> Send:
        async def sending(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                protect(headers, path)
                if headers.get("content-type", "").startswith("text/html"):
                    self._remember(scope, headers)
            await send(message)

        return sending

    def _remember(self, scope: Scope, headers: MutableHeaders) -> None:
        """Tell a browser what the forms of this page are bound to, unless it knows."""
        if bound := scope["state"].get("new_forms"):
            secure = "; Secure" if self._policy.https or scope.get("scheme") == "https" else ""
            where = f"Path={scope.get('root_path') or '/'}; HttpOnly; SameSite=Lax{secure}"
            headers.append("set-cookie", f"{FORMS}={bound}; {where}")

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not is_our_host(host, self._policy.hosts, loopback_only=self._policy.open):
            raise Refused(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"This dashboard is not known as {one_line(host)[:LONGEST_NAME]}. If it should be,"
                " start it with --host NAME, or hosts=[…].",
                "host",
            )
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > LARGEST_BODY:
            raise _too_large()
        origin = headers.get("origin")
        site = headers.get("sec-fetch-site", "none")
        foreign = origin is not None and not is_our_origin(origin, host)
        unsafe = scope["method"] not in SAFE
        if (foreign and unsafe) or (unsafe and site in ("cross-site", "same-site")):
            raise Refused(
                HTTPStatus.FORBIDDEN, "The request comes from a page elsewhere.", "elsewhere"
            )

    def _recognise(self, scope: Scope) -> bool:
        """Who is asking? Notes it, and returns whether they may come in."""
        connection, state, policy = HTTPConnection(scope), scope["state"], self._policy
        peer = connection.client.host if connection.client else "unknown"
        kind, _, given = connection.headers.get("authorization", "").partition(" ")
        session: Session | None = None
        user: str | None = None
        if policy.user_header is not None and policy.is_proxy(peer):
            user = connection.headers.get(policy.user_header)
        if user:
            name = one_line(user)[:LONGEST_NAME]
        elif kind.lower() == "bearer" and self._is_token(given.strip(), peer):
            name, state["by_token"] = "token", True
        elif policy.token is not None and (
            session := self._sessions.read(connection.cookies.get(COOKIE))
        ):
            name = f"session {session.number[:6]}"
        elif policy.open:
            if not is_loopback(peer) and connection.client is not None:
                raise Refused(
                    HTTPStatus.FORBIDDEN,
                    "This dashboard has no token, so it answers only its own machine. See"
                    " docs/dashboard.md for how to open it to others.",
                    "local_only",
                )
            name = "local user"
        else:
            return False
        state["actor"] = f"{name} from {peer}"
        state["who"], state["place"] = name, _place(connection, peer, by_proxy=bool(user))
        state["may_write"] = policy.allow_changes
        state["session"] = session
        bound = connection.cookies.get(FORMS, "") if session is None else session.text
        if not bound:
            bound = state["new_forms"] = secrets.token_urlsafe(16)
        state["bound"], state["proof"] = bound, self._sessions.proof(bound)
        said = connection.query_params.get("said", "")
        if said and self._sessions.is_mark(connection.query_params.get("mark", ""), said, bound):
            state["said"] = said
        return True

    def _is_token(self, given: str, peer: str) -> bool:
        """The right one always is: otherwise anyone could keep others out, such as all who come
        by the same proxy. Wrong ones are counted with those of the login."""
        if self._policy.token is None:
            return False
        if self._sessions.is_token(given):
            return True
        if wait := self._attempts.wait(peer):
            raise Refused(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"Too many wrong tokens. Try again in {ceil(wait)} seconds.",
                "too_many",
            )
        self._attempts.failed(peer)
        _logger.warning("dashboard.token_refused from=%s", peer)
        return False

    def _check_change(self, scope: Scope, path: str) -> None:
        """Of a request that would change something."""
        if scope["method"] in SAFE or path in ("/login", "/logout"):
            return
        if not scope["state"]["may_write"]:
            raise Refused(
                HTTPStatus.FORBIDDEN,
                "This dashboard only shows: start it with --allow-changes, or allow_changes=True.",
                "read_only",
            )
        headers = Headers(scope=scope)
        if path.startswith("/api/") and not scope["state"].get("by_token"):
            # Browsers say where a request comes from; programs have nothing that could be abused.
            browser = "origin" in headers or "sec-fetch-site" in headers or "cookie" in headers
            proof = headers.get("x-csrf-token", "")
            if browser and not self._sessions.is_proof(proof, scope["state"]["bound"]):
                raise Refused(
                    HTTPStatus.FORBIDDEN, "The header X-CSRF-Token is missing or wrong.", "csrf"
                )

    def _refusal(self, scope: Scope, path: str, refused: Refused) -> ASGIApp:
        if path.startswith("/api"):
            answer = problem(refused.status, str(refused), refused.code)
        elif refused.status is HTTPStatus.MISDIRECTED_REQUEST:  # it gets nothing of ours
            answer = PlainTextResponse(f"{refused}\n", refused.status)
        else:
            answer = self._page(Request(scope), refused.status, str(refused))
        if refused.status is HTTPStatus.TOO_MANY_REQUESTS:
            wait = self._attempts.wait((scope.get("client") or ["unknown"])[0])
            answer.headers["retry-after"] = str(max(1, ceil(wait)))
        return answer


def _place(connection: HTTPConnection, peer: str, *, by_proxy: bool) -> str:
    """Whence a request comes. A proxy that is believed says it, in what it has added last."""
    told = connection.headers.get("x-forwarded-for", "") if by_proxy else ""
    client = one_line(told.rpartition(",")[2].strip())[:LONGEST_NAME]
    return f"{client} via {peer}" if client else peer


def path_of(scope: Scope) -> str:
    """The path within the dashboard, wherever that is mounted."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return (path.removeprefix(root) if root else path) or "/"


def problem(status: HTTPStatus, detail: str, code: str) -> Response:
    """As RFC 9457 wants it."""
    said = {"type": "about:blank", "title": status.phrase, "status": status, "detail": detail}
    said["code"] = code
    return Response(json.dumps(said), status, media_type="application/problem+json")


def _to_login(scope: Scope, path: str, *, by_token: bool) -> ASGIApp:
    if path.startswith("/api") or not by_token:
        answer = problem(
            HTTPStatus.UNAUTHORIZED, "Who are you? Send Authorization: Bearer TOKEN.", "unknown"
        )
        answer.headers["www-authenticate"] = "Bearer"
        return answer
    if path == "/live":
        return PlainTextResponse("Log in first.\n", HTTPStatus.UNAUTHORIZED)
    query = scope.get("query_string", b"").decode("latin-1")
    wanted = quote(path + (f"?{query}" if query else ""), safe="")
    return RedirectResponse(
        f"{scope.get('root_path', '')}/login?then={wanted}", HTTPStatus.SEE_OTHER
    )


def _too_large() -> Refused:
    return Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The request is too large.", "too_large")


def _limited(receive: Receive) -> Receive:
    """A body without a length, or with a wrong one, is refused, too."""
    seen = 0

    async def limited() -> Message:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > LARGEST_BODY:
                raise _too_large()
        return message

    return limited


def protect(headers: MutableHeaders, path: str) -> None:
    """What a browser is to keep in mind about an answer."""
    for name, value in HEADERS.items():
        headers.setdefault(name, value)
    if not path.startswith("/static/"):
        headers.setdefault("cache-control", "no-store")
