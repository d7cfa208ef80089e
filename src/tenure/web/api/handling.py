"""From a request to an answer, by the table: routing, checks, errors."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from typing import Any, NoReturn
from urllib.parse import quote, unquote

import msgspec
from starlette.datastructures import URLPath
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import Receive, Scope, Send

from tenure.backends.base import AuditStore
from tenure.errors import ConfigError, TenureError
from tenure.model import NewAction
from tenure.printable import field, one_line
from tenure.scheduler.async_scheduler import AsyncScheduler
from tenure.schedules.auditing import on_record
from tenure.tasks.arguments import ID_MOST, KEY_MOST, idempotency_key
from tenure.web.api import operations
from tenure.web.api.access import Access
from tenure.web.api.description import describe
from tenure.web.api.page import readable
from tenure.web.api.problems import (
    Problem,
    entity_tag,
    missing,
    no_precondition,
    problem_of,
    stale,
    unprocessable,
)
from tenure.web.api.queries import read_query
from tenure.web.api.repeats import Repeats
from tenure.web.api.table import Call, Operation, Reply, Version
from tenure.web.api.values import encoded
from tenure.web.auditing import place, who
from tenure.web.security.guard import Refused

BESIDE_ARGUMENTS = 64 * 1024
"""How many bytes a body may have beside the greatest arguments of a task, or data of an event."""
BODY_WITHIN = 10.0
"""How many seconds a client has to send it."""
_TAG = re.compile(r'(?:W/)?"([^"]*)"')
_JSON = "application/json"
_logger = logging.getLogger("tenure.web.api")


def routes(access: AsyncScheduler) -> list[BaseRoute]:
    """All of the API, to be mounted under a path of its own."""
    asked, found = Access(access), dict[str, list[Operation]]()
    for operation in operations.TABLE:
        found.setdefault(operation.path, []).append(operation)
    return [
        _Page(("",), readable, "text/html; charset=utf-8"),
        _Page(("openapi.json",), describe, _JSON),
        *(_Path(operations, asked) for operations in found.values()),
        _Nothing(),
    ]


class _Route(BaseRoute):
    """A path that is matched segment by segment, so that a name may have a slash in it (%2F)."""

    def __init__(self, segments: Sequence[str]) -> None:
        self.segments = tuple(segments)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http":
            return Match.NONE, {}
        asked = _segments(scope)
        if len(asked) != len(self.segments):
            return Match.NONE, {}
        values: dict[str, str] = {}
        for wanted, given in zip(self.segments, asked, strict=True):
            if wanted.startswith("{") and given:
                values[wanted[1:-1]] = given
            elif wanted != given:
                return Match.NONE, {}
        return Match.FULL, {"path_params": values, "endpoint": self}

    def url_path_for(self, name: str, /, **path_params: Any) -> URLPath:
        raise NoMatchFound(name, path_params)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self.respond(request)
        except Exception as error:  # noqa: BLE001 - every error is answered as a problem
            response = problem_of(error).response()
        if request.method == "HEAD":
            response.body = b""
        await response(scope, receive, send)

    async def respond(self, request: Request) -> Response:
        raise NotImplementedError


class _Path(_Route):
    """The operations of one path."""

    def __init__(self, operations: Sequence[Operation], access: Access) -> None:
        super().__init__(operations[0].segments)
        self._access = access
        self._operations = {each.method: each for each in operations}
        self._repeats = Repeats()
        self._most = access.largest + BESIDE_ARGUMENTS

    async def respond(self, request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        operation = self._operations.get(method)
        if operation is None:
            _refuse_method(request, self._operations)
        if operation.writes and not _state(request, "may_write", False):
            raise Problem(HTTPStatus.FORBIDDEN, "read_only", "Changes are not allowed here.")
        call = await _checked(operation, request, self._most)
        if not operation.writes:
            return _response(request, await self._reply(operation, call))
        asked = await self._asked(operation, request, call)
        async with on_record(self._audit, asked, Problem):
            reply = await self._reply(operation, call)
        path, actor = one_line(request.url.path), one_line(call.actor)
        _logger.info("%s %s by %s: %d", operation.method, path, actor, reply.status)
        return _response(request, reply)

    async def _asked(self, operation: Operation, request: Request, call: Call) -> NewAction:
        """For the audit. Of an edit it says what would change, as of just before it."""
        asked = _asked(operation, request, call)
        if (difference := operation.difference) is not None:
            with suppress(TenureError, Problem):  # which is told when it is tried
                found = await self._access.ask(lambda opened: difference(opened, call))
                return replace(asked, detail=found or asked.detail)
        return asked

    async def _audit(self, question: Callable[[AuditStore], Awaitable[Any]]) -> Any:
        return await self._access.ask(lambda opened: question(opened.backend.audit))

    async def _reply(self, operation: Operation, call: Call) -> Reply:
        if operation.remembers and (before := self._repeats.find(call)) is not None:
            return Reply(before)
        reply = await self._access.ask(lambda opened: operation.handler(opened, call))
        if isinstance(reply, Reply):
            return reply
        if operation.remembers:
            self._repeats.keep(call, reply)
        return Reply(reply)


class _Page(_Route):
    """What is made of the table itself."""

    def __init__(self, segments: Sequence[str], make: Any, media_type: str) -> None:
        super().__init__(segments)
        self._make = make
        self._media_type = media_type

    async def respond(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            _refuse_method(request, ["GET"])
        made: bytes = self._make(request.scope.get("root_path", ""))
        return Response(made, media_type=self._media_type)


class _Nothing(_Route):
    """Every other path."""

    def __init__(self) -> None:
        super().__init__(())

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return (Match.FULL if scope["type"] == "http" else Match.NONE), {"endpoint": self}

    async def respond(self, request: Request) -> Response:
        raise missing("There is nothing under this path: openapi.json describes what there is.")


def _refuse_method(request: Request, allowed: Sequence[str] | dict[str, Operation]) -> NoReturn:
    methods = ", ".join(sorted({*allowed, *(["HEAD"] if "GET" in allowed else [])}))
    detail = f"{one_line(request.method)} is not possible here, only {methods}."
    raise Problem(HTTPStatus.METHOD_NOT_ALLOWED, "method", detail, {"allow": methods})


def _segments(scope: Scope) -> list[str]:
    """Below the place where the API is mounted. Without the raw path, %2F cannot be told from a
    slash; then such names are not found."""
    path, root = scope["path"], scope.get("root_path", "")
    raw: bytes | None = scope.get("raw_path")
    parts = path.split("/") if raw is None else raw.partition(b"?")[0].decode("latin-1").split("/")
    if root and path.startswith(root):
        parts = parts[root.count("/") :]
    return [unquote(part, errors="surrogateescape") for part in parts[1:]]


def _state(request: Request, name: str, otherwise: Any) -> Any:
    return request.scope.get("state", {}).get(name, otherwise)


async def _checked(operation: Operation, request: Request, most: int) -> Call:
    path = {name: _segment(name, value) for name, value in request.path_params.items()}
    query = read_query(operation.query, request.query_params.multi_items())
    body = await _body(operation, request, most)
    key = _key(operation, request)
    # Last: what is wrong in itself does not depend on a version.
    expected, any_version = _precondition(operation, request)
    actor = str(_state(request, "actor", "") or "someone unknown")
    return Call(path, query, body, expected, any_version, key, actor)


def _asked(operation: Operation, request: Request, call: Call) -> NewAction:
    """Arguments and data may be secret, so only their names are kept."""
    words = re.sub("([A-Z])", lambda found: f" {found[1].lower()}", operation.id)
    given = {} if call.body is None else msgspec.structs.asdict(call.body)
    subject = "/".join(call.path.values()) or str(given.get("name") or given.get("task") or "")
    return NewAction(who(request), place(request), "api", words, subject, _detail(call, given))


def _detail(call: Call, given: Mapping[str, object]) -> str:
    default = {} if call.body is None else _defaults(type(call.body))
    said = {n: v for n, v in given.items() if n != "name" and (n not in default or v != default[n])}
    return " ".join(
        f"{name}={field(value)}" if isinstance(value, str | int | float) else name
        for name, value in said.items()
    )


def _defaults(kind: type[msgspec.Struct]) -> dict[str, object]:
    fields = msgspec.structs.fields(kind)
    return {each.name: each.default for each in fields if each.default is not msgspec.NODEFAULT}


def _segment(name: str, value: str) -> str:
    if name == "run":
        if not re.fullmatch("[0-9]{1,19}", value) or not 0 < int(value) <= ID_MOST:
            raise unprocessable(f"a run is named by its number, such as 1042, not {value!r}.")
    elif len(value) > 1_000 or not value.isprintable():
        raise unprocessable(f"{name}: 1 to 1,000 printable characters.")
    return value


def _precondition(operation: Operation, request: Request) -> tuple[int | None, bool]:
    """The version that the client has read, and whether any will do."""
    if operation.version is Version.NONE:
        return None, False
    given = request.headers.get("if-match")
    if given is None:
        if operation.version is Version.REQUIRED:
            raise no_precondition()
        return None, False
    if given.strip() == "*":
        return None, True
    found = _TAG.fullmatch(given.strip())
    if found is None:
        raise unprocessable('If-Match: give the ETag that you read, such as "7", or *.')
    number = found[1]
    if not re.fullmatch("[0-9]{1,16}", number):
        raise stale("No version has this ETag.")
    return int(number), False


def _key(operation: Operation, request: Request) -> str | None:
    given = request.headers.get("idempotency-key") if operation.idempotent else None
    if given is None:
        return None
    if 2 < len(given) <= KEY_MOST and given[0] == given[-1] == '"':  # as the draft has it
        given = given[1:-1]
    try:
        return idempotency_key(given)
    except ConfigError as error:
        raise unprocessable(f"Idempotency-Key: {error}") from error


async def _body(operation: Operation, request: Request, most: int) -> Any:
    if operation.body is None:
        return None
    raw = await _read(request, most)
    if not raw:
        if operation.body_optional:
            return operation.body()
        raise unprocessable("This needs a JSON object as its body.")
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != _JSON:
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "media_type", f"Send the body as {_JSON}.")
    try:
        body = msgspec.json.decode(raw, type=operation.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise unprocessable(f"The body: {error}") from error
    for name in operation.body.__struct_fields__:
        value = getattr(body, name)
        if isinstance(value, str) and "\0" in value:
            raise unprocessable(f"{name} has a zero character, which no store takes.")
    return body


async def _read(request: Request, most: int) -> bytes:
    too_much = Problem(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "too_large",
        f"A body may have at most {most:,} bytes.",
        {"connection": "close"},  # the rest of it is not read
    )
    length = request.headers.get("content-length", "0")
    if not re.fullmatch("[0-9]{1,18}", length) or int(length) > most:
        raise too_much
    raw = bytearray()
    try:
        async with asyncio.timeout(BODY_WITHIN):
            async for chunk in request.stream():
                raw += chunk
                if len(raw) > most:
                    raise too_much
    except Refused as error:
        raise Problem(error.status, error.code, str(error), {"connection": "close"}) from error
    except (TimeoutError, ClientDisconnect) as error:
        text = f"The body did not arrive within {BODY_WITHIN:g} s."
        raise Problem(HTTPStatus.REQUEST_TIMEOUT, "slow", text, {"connection": "close"}) from error
    return bytes(raw)


def _response(request: Request, reply: Reply) -> Response:
    headers = {"cache-control": "no-store", **entity_tag(reply.version)}
    if reply.location is not None:
        root = request.scope.get("root_path", "")
        headers["location"] = "/".join([root, *(quote(each, safe="") for each in reply.location)])
    if reply.answer is None:
        return Response(None, HTTPStatus.NO_CONTENT, headers)
    return Response(encoded(reply.answer), reply.status, headers, _JSON)
