"""What a task sees of its own run."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, get_type_hints

from tenure.errors import Cancelled, ConfigError, InvalidEvent
from tenure.model import Event, Kind, NewEvent, RunRecord
from tenure.settings import EVENT_LIMIT
from tenure.tasks.event_checks import checked
from tenure.tasks.run_log import RunLog
from tenure.tasks.tracing import traceparent

EMIT_MOST, EMIT_SIZE = 1_000, 1_000_000
"""How many events a run may emit, and how much data: they are stored with its result, and other
results of its node are stored in the same transaction."""
current_run: ContextVar[Run | None] = ContextVar("current_run", default=None)
"""The run that is executed here."""
_first_word = threading.Lock()


class Claims(Protocol):
    """How a run speaks of its claim in a transaction of the user's."""

    def confirm(self, run: Run, connection: object) -> Any: ...

    def complete(self, run: Run, connection: object) -> Any: ...


@dataclass(slots=True)
class Run:
    """What a task can know about the run it executes."""

    id: int
    schedule: str | None
    """None if it was enqueued."""
    task: str
    nominal: datetime
    attempt: int
    term: int
    node: str
    kwargs: Mapping[str, Any]
    cancelled: bool = False
    """It was cancelled, ran into its timeout, or its node stops or has lost it: come to an end."""
    claim: int = 0
    """The number of the claim under which it is executed."""
    kind: Kind = Kind.PLANNED
    """Planned by its schedule, or requested with `run_now`, `backfill` or `enqueue`."""
    traceparent: str | None = field(default=None, repr=False, compare=False)
    """The trace in which it was enqueued or fired."""
    claims: Claims | None = field(default=None, repr=False, compare=False)
    completed: bool = field(default=False, repr=False, compare=False)
    """Was `complete` called?"""
    emitted: list[NewEvent] = field(default_factory=list, repr=False, compare=False)
    """What `emit` was given: to be stored when the run succeeds."""
    event_limit: int = field(default=EVENT_LIMIT, repr=False, compare=False)
    """How many bytes of data each of those may have, by the settings of its node."""
    stack: Callable[[], str] | None = field(default=None, repr=False, compare=False)
    """Where its code is at this moment; None until it has begun."""
    told: RunLog | None = field(default=None, repr=False, compare=False)
    """Its log and its progress; most runs have none."""
    on_news: Callable[[], None] | None = field(default=None, repr=False, compare=False)
    """Called, on any thread, when there is something new in `told`."""
    begun: float = field(default=0.0, repr=False, compare=False)
    """When this attempt began, on the boot clock of its node."""
    waited: float = field(default=0.0, repr=False, compare=False)
    """Of a transactional task: how many seconds it has waited for its connection."""
    committed: bool | None = field(default=False, repr=False, compare=False)
    """Of a transactional task: was its transaction committed? None: nobody here knows."""

    @classmethod
    def of(cls, record: RunRecord, kwargs: Mapping[str, Any]) -> Run:
        return cls(
            id=record.id,
            schedule=record.schedule,
            task=record.task,
            nominal=record.nominal,
            attempt=record.attempt,
            term=record.term,
            node=record.node or "",
            kwargs=kwargs,
            claim=record.claim,
            kind=record.kind,
            traceparent=record.traceparent,
        )

    def check(self) -> None:
        """Between steps: raise `Cancelled` if this run should come to an end."""
        if self.cancelled:
            raise Cancelled

    def emit(self, event: Event) -> None:
        """Emit an event if this run succeeds: it is stored in the transaction that records that.

        If the task raises, or another attempt takes over, nothing of it is stored.
        `InvalidEvent` if it cannot be stored.
        """
        identity = f"run/{self.id}/{self.claim}/{len(self.emitted)}"
        subject = self.schedule or self.task
        new = NewEvent(
            identity, checked(event, self.event_limit), subject, traceparent=traceparent()
        )
        size = sum(len(each.content.data) for each in (*self.emitted, new))
        if len(self.emitted) >= EMIT_MOST or size > EMIT_SIZE:
            raise InvalidEvent(
                f"run {self.id} has emitted {len(self.emitted):,} events, and they wait for its end"
                f" in memory: at most {EMIT_MOST:,}, with {EMIT_SIZE:,} characters of data. Emit"
                " more with scheduler.emit(…), or in several runs."
            )
        self.emitted.append(new)

    def log(self, text: object) -> None:
        """Add a line, or several, to the log of this attempt: `tenure runs log`. From any thread.

        The first and the last 32 KiB are kept. It is on record within a second or two, and at the
        latest when the attempt ends.
        """
        self._told.add(text)

    def progress(self, fraction: float | None, message: object = "") -> None:
        """Say how far it is: `run.progress(0.4, "page 12 of 30")`. From any thread.

        From 0 to 1; None if you cannot say. The last word counts. As often as you like: it is
        brought to the store at most once a second.
        """
        self._told.progress(fraction, message)

    def fence(self, connection: object) -> Any:
        """In your own transaction: `Fenced` if this attempt is no longer the one that counts.

        From here until your transaction ends nobody can take the run away. `connection` is one that
        `scheduler.add(connection=…)` takes; await the call if your connection is for asyncio.
        """
        return self._claims.confirm(self, connection)

    def complete(self, connection: object) -> Any:
        """In your own transaction, at its end: record that this run succeeded.

        Your writes and the record commit together, or neither does: whatever happens to this
        process, the effects of the run are in the database exactly once. As for `fence`.
        """
        self.completed = True
        return self._claims.complete(self, connection)

    @property
    def _told(self) -> RunLog:
        with _first_word:  # of two threads that begin to tell, one makes it
            if self.told is None:
                self.told = RunLog(self.on_news)
            return self.told

    @property
    def _claims(self) -> Claims:
        if self.claims is None:
            raise ConfigError("this Run was made by hand: no store knows its claim.")
        return self.claims


def run_parameter(function: Callable[..., Any]) -> str | None:
    """The parameter annotated `Run`, or named `run`."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    try:
        hints = get_type_hints(function)
    except Exception:  # noqa: BLE001 - users' annotations may name anything
        hints = getattr(function, "__annotations__", {})
    for name in parameters:
        if hints.get(name) in (Run, "Run", "tenure.Run"):
            return name
    return "run" if "run" in parameters and "run" not in hints else None
