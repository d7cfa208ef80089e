"""Leases, their holders and terms, and the fence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from tenure.model.value import value

HIGHEST_TERM = 2**53 - 1
"""A greater one was never granted: it was put there by hand. Every store counts exactly up to this,
even in floating point; at a million terms a second that takes 285 years."""
LONGEST_TTL = 86_400.0
UNKNOWN_TTL = 60.0
"""The ttl of a fenced lease whose record does not say."""


@value(frozen=True, slots=True)
class Holder:
    """What may hold leases: one start of one process, never a host alone.

    By `boot`, `pid_namespace` and `started`, another process on the same kernel can prove that this
    one is gone. They are empty if the platform does not tell.
    """

    id: str
    host: str
    pid: int
    boot: str = ""
    pid_namespace: str = ""
    started: int = 0


@value(frozen=True, slots=True)
class Takeover:
    """From whom a lease was taken that had not been released, and why."""

    holder: str
    host: str | None
    pid: int | None
    silent: float | None
    """How many seconds after its last renewal; None if that is unknown."""
    reason: str


@value(frozen=True, slots=True)
class Grant:
    """A lease as its holder knows it. Renewing and releasing match holder *and* term."""

    name: str
    holder: str
    term: int
    ttl: float
    takeover: Takeover | None = field(default=None, compare=False)
    """None if the lease was free, or the holder's own."""


@value(frozen=True, slots=True)
class LeaseRecord:
    """A lease as the store has it. The times are for people; only the store judges `live`."""

    name: str
    term: int
    holder: str | None
    host: str | None
    pid: int | None
    ttl: float
    fenced: bool
    counter: int
    acquired_at: datetime | None
    renewed_at: datetime | None
    expires_at: datetime | None
    live: bool
    comparable: bool = True
    """False: the holder's clock cannot be compared with ours, so the lease has to be watched."""
    info: Mapping[str, Any] = field(default_factory=dict)
    disconnected: bool = False
    """The store has seen the end of the holder's connection. The holder may have another by now."""
    unreadable: str | None = None
    """Which of its columns have impossible values, because the row was edited by hand. They count
    as unknown, and the lease is judged on the safe side."""


@value(frozen=True, slots=True)
class Tenure:
    """A line of a lease's history: who held it, from when to when, and why it ended."""

    name: str
    term: int
    holder: str
    host: str
    pid: int
    acquired_at: datetime
    ended_at: datetime | None
    end: str | None


@value(frozen=True, slots=True)
class Forgotten:
    """What a call of `LeaseStore.forget` did."""

    count: int
    after: str = ""
    """Where the next call continues; empty if there are no more."""
    lines: int = 0
    """How many lines of history were dropped."""


DELETED = "its lease was deleted"
"""Why a line of history ended, if the lease's record was missing when the next holder came."""


@value(frozen=True, slots=True)
class Fence:
    """The right under which a leader writes: a term and its holder, within a scope."""

    scope: str
    term: int
    holder: str
