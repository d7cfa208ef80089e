"""Errors as RFC 9457 has them: `application/problem+json`. Nothing about the store is told."""

from __future__ import annotations

import logging
from http import HTTPStatus

import msgspec
from starlette.responses import Response

from tenure.errors import (
    ConfigError,
    Conflict,
    NotFound,
    SchemaMismatch,
    StoreError,
    StoreUnavailable,
    TenureError,
)
from tenure.printable import storable

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER = 5
"""Seconds after which to ask a store again that did not answer."""
_logger = logging.getLogger("tenure.web.api")


class ProblemDetails(msgspec.Struct, kw_only=True):
    """What went wrong, as RFC 9457 describes it."""

    type: str = "about:blank"
    title: str
    """The phrase of the status."""
    status: int
    detail: str
    """What to do about it, for people."""
    code: str = ""
    """The same for programs: it does not change. What stands before the API may answer without."""


class Problem(Exception):
    """An answer that is an error."""

    def __init__(
        self, status: HTTPStatus, code: str, detail: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.headers = headers or {}

    def response(self) -> Response:
        details = ProblemDetails(
            title=self.status.phrase,
            status=self.status.value,
            detail=storable(str(self)),
            code=self.code,
        )
        headers = {"cache-control": "no-store", **self.headers}
        return Response(msgspec.json.encode(details), self.status, headers, MEDIA_TYPE)


def unprocessable(detail: str) -> Problem:
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", detail)


def missing(detail: str) -> Problem:
    return Problem(HTTPStatus.NOT_FOUND, "not_found", detail)


def conflict(detail: str, code: str = "conflict") -> Problem:
    return Problem(HTTPStatus.CONFLICT, code, detail)


def entity_tag(version: object) -> dict[str, str]:
    """The header; none if the version is no number, because its row was edited."""
    return {"etag": f'"{version}"'} if type(version) is int else {}


def stale(detail: str, version: object = None) -> Problem:
    headers = entity_tag(version)
    return Problem(HTTPStatus.PRECONDITION_FAILED, "stale", detail, headers)


def no_precondition() -> Problem:
    return Problem(
        HTTPStatus.PRECONDITION_REQUIRED,
        "no_version",
        "Say which version you change: If-Match with the ETag that you read, or * for any.",
    )


def problem_of(error: Exception) -> Problem:
    """What to answer. Of a store only that it did not answer: the log says where and why."""
    match error:
        case Problem():
            return error
        case NotFound():
            return missing(str(error))
        case Conflict():
            return _of_conflict(error)
        case ConfigError():
            return unprocessable(str(error))
        case SchemaMismatch():
            _logger.error("the store cannot be used: %s", error)
            return _unavailable("The store's tables are missing, or older or newer than this code.")
        case StoreUnavailable():
            _logger.warning("the store did not answer: %s", error)
            return _unavailable("The store did not answer. Try again.")
        case StoreError():
            _logger.error("the store refused: %s", error)
            return _unavailable("The store refused it. The log says why.")
        case TenureError():
            return conflict(str(error))
    _logger.error("an answer failed", exc_info=error)
    return Problem(
        HTTPStatus.INTERNAL_SERVER_ERROR, "internal", "This is a defect; the log says more."
    )


def _of_conflict(error: Conflict) -> Problem:
    if error.schedule is None:
        return conflict(str(error))
    return stale(str(error), error.schedule.version)


def _unavailable(detail: str) -> Problem:
    headers = {"retry-after": str(RETRY_AFTER)}
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "store_unavailable", detail, headers)
