"""The table as OpenAPI 3.1."""

from __future__ import annotations

from functools import cache
from http import HTTPStatus
from typing import Any

import msgspec

from tenure.model.version import VERSION
from tenure.tasks.arguments import ID_MOST, KEY_MOST
from tenure.web.api import operations, problems
from tenure.web.api.table import Operation, Version

_REFERENCE = "#/components/schemas/{name}"
_TEXTS = {
    HTTPStatus.UNAUTHORIZED: "Who asks is not known.",
    HTTPStatus.FORBIDDEN: "Changes are not allowed.",
    HTTPStatus.NOT_FOUND: "There is none of this name or number.",
    HTTPStatus.REQUEST_TIMEOUT: "The body did not arrive in time.",
    HTTPStatus.CONFLICT: "It exists already, or its state does not allow it; nothing was changed.",
    HTTPStatus.PRECONDITION_FAILED: "It has another version by now; nothing was changed.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too large.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is not sent as JSON.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "What was sent is wrong; nothing was changed.",
    HTTPStatus.PRECONDITION_REQUIRED: "If-Match is missing.",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many wrong tokens: try again after Retry-After.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The store did not answer: try again after Retry-After.",
}


@cache
def describe(root: str = "") -> bytes:
    """As it is served, mounted under `root`."""
    return msgspec.json.encode(description(root))


def description(root: str = "") -> dict[str, Any]:
    kinds: set[type[msgspec.Struct]] = {problems.ProblemDetails}
    for operation in operations.TABLE:
        kinds |= {k for k in (operation.answer, operation.body, operation.query) if k is not None}
    _, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    queries = {name: components.pop(name) for name in _queries()}
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations.TABLE:
        query = {} if operation.query is None else queries[operation.query.__name__]
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(
            operation, query
        )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tenure",
            "version": VERSION,
            "description": "Schedules, runs, leases and events of a Tenure cluster.",
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": root or "/"}],
        "paths": paths,
        "components": {"schemas": components},
    }


def _queries() -> set[str]:
    return {o.query.__name__ for o in operations.TABLE if o.query is not None}


def _operation(operation: Operation, query: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": operation.id,
        "summary": operation.summary,
        "tags": [operation.segments[0]],
        "parameters": [*_of_path(operation), *_of_query(query), *_of_headers(operation)],
        "responses": {
            **{str(status.value): _success(operation, status) for status in operation.statuses},
            **{str(status.value): _problem(status) for status in possible_problems(operation)},
        },
    }
    if operation.body is not None:
        told["requestBody"] = {
            "required": not operation.body_optional,
            "content": {"application/json": {"schema": _reference(operation.body)}},
        }
    return told


def possible_problems(operation: Operation) -> list[HTTPStatus]:
    found = {
        HTTPStatus.UNAUTHORIZED,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.UNPROCESSABLE_ENTITY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        *operation.problems,
    }
    if operation.writes:
        found.add(HTTPStatus.FORBIDDEN)
    if operation.body is not None:
        found |= {
            HTTPStatus.REQUEST_TIMEOUT,
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        }
    if operation.version is not Version.NONE:
        found |= {HTTPStatus.PRECONDITION_FAILED, HTTPStatus.PRECONDITION_REQUIRED}
    return sorted(found)


def _of_path(operation: Operation) -> list[dict[str, Any]]:
    number = {"type": "integer", "minimum": 1, "maximum": ID_MOST}
    text = {"type": "string", "minLength": 1, "maxLength": 1_000}
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": number if name == "run" else text,
        }
        for name in operation.parameters
    ]


def _of_query(query: dict[str, Any]) -> list[dict[str, Any]]:
    required = query.get("required", [])
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            "schema": _without_null(schema),
        }
        for name, schema in query.get("properties", {}).items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """What is left out of a query is absent: it has no null."""
    some = [each for each in schema.get("anyOf", []) if each != {"type": "null"}]
    return some[0] if len(some) == 1 else schema


def _of_headers(operation: Operation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if operation.version is not Version.NONE:
        found.append(
            {
                "name": "If-Match",
                "in": "header",
                # Not required here: without it, the answer is 428.
                "required": False,
                "description": "The ETag that you read, or * for any version.",
                "schema": {"type": "string", "pattern": r'^(\*|(W/)?"[^"]*")$'},
            }
        )
    if operation.idempotent:
        found.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "required": False,
                "description": "The same key gives the same run, so it is safe to repeat.",
                "schema": {"type": "string", "minLength": 1, "maxLength": KEY_MOST},
            }
        )
    return found


def _success(operation: Operation, status: HTTPStatus) -> dict[str, Any]:
    told: dict[str, Any] = {"description": status.phrase}
    if operation.answer is not None:
        told["content"] = {"application/json": {"schema": _reference(operation.answer)}}
    if operation.tells_version:
        told["headers"] = {
            "ETag": {"description": "Its version.", "schema": {"type": "string"}, "required": True}
        }
    return told


def _problem(status: HTTPStatus) -> dict[str, Any]:
    content = {problems.MEDIA_TYPE: {"schema": _reference(problems.ProblemDetails)}}
    told: dict[str, Any] = {"description": _TEXTS[status], "content": content}
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        told["headers"] = {"Retry-After": {"schema": {"type": "string"}, "required": True}}
    return told


def _reference(kind: type[msgspec.Struct]) -> dict[str, str]:
    return {"$ref": _REFERENCE.format(name=kind.__name__)}
