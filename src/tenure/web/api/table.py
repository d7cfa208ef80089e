"""A row of the table of routes: all that there is to know about an operation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from http import HTTPStatus
from typing import Any

import msgspec

from tenure.web.api.access import Opened


class Version(Enum):
    """Whether an operation goes by the version that the client has read (`If-Match`)."""

    NONE = "none"
    REQUIRED = "required"
    IF_EXISTS = "if it exists"
    """Required to replace something, and not to create it."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request, checked by the table."""

    path: Mapping[str, str]
    query: Any
    body: Any
    expected: int | None
    """The version of `If-Match`; None if that is `*`, or missing where it may be."""
    any_version: bool
    """`If-Match: *`: whatever version there is."""
    key: str | None
    """`Idempotency-Key`."""
    actor: str
    read: dict[str, Any] = field(default_factory=dict)
    """Of the body: what takes long to read, and is needed for the audit, too."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with more than its body."""

    answer: msgspec.Struct | None
    status: HTTPStatus = HTTPStatus.OK
    version: int | None = None
    location: tuple[str, ...] | None = None
    """The path of what was created, below the API."""


Handler = Callable[[Opened, Call], Awaitable[msgspec.Struct | Reply]]


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    """Such as /schedules/{name}; a parameter is a whole segment."""
    id: str
    summary: str
    handler: Handler
    answer: type[msgspec.Struct] | None
    """None: no content."""
    statuses: tuple[HTTPStatus, ...] = (HTTPStatus.OK,)
    """Of success."""
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    body_optional: bool = False
    version: Version = Version.NONE
    tells_version: bool = False
    idempotent: bool = False
    """Takes an `Idempotency-Key`."""
    remembers: bool = False
    """The store does not keep the key: repeats.py keeps the answer."""
    difference: Callable[[Opened, Call], Awaitable[str]] | None = None
    """For the audit: what it would change, from what to what."""
    problems: tuple[HTTPStatus, ...] = field(default=())
    """Beside those that every operation of its kind may have."""

    @property
    def writes(self) -> bool:
        return self.method != "GET"

    @property
    def segments(self) -> tuple[str, ...]:
        return tuple(self.path.removeprefix("/").split("/"))

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(each[1:-1] for each in self.segments if each.startswith("{"))
