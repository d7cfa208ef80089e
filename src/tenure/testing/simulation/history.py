"""What happened in a simulated cluster, in the order of true time.

Events are kept as values and turned into text only when somebody wants to read them, or to compare
two histories by their digests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tenure.model import Attempt, Grant, LeaseRecord, LoggedEvent, Result, RunRecord, Schedule
from tenure.settings import Settings

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
"""The store's clock at the beginning of every history."""

STORE, FACT, FAULT, NETWORK = "store", "fact", "fault", "network"
OCCURRENCE, RUN, TRUST, BODY, END = "occurrence", "run", "trust", "body", "end"
PRUNED = "pruned"
EMITTED = "emitted"
"""An event was stored, or got its position."""
ATTEMPT, GONE = "attempt", "gone"
"""What is on record about an attempt, or no longer is."""
UNMARKED = "unmarked"
"""A run that could be claimed, and to which nothing leads."""
ASKS = "asks for work"
"""What a node does when it sends a claim."""
EDITOR = "editor"
"""Who changes schedules from outside."""
TRANSACTIONAL = "transactional"
"""What the names of transactional tasks begin with."""
EFFECT = '"effect"'
"""What they return: it comes to the store with what they wrote, and in no other way."""
CUSTOMER = "shop"
"""Who enqueues runs."""
PUBLISHER, READER = "press", "reader"
"""Who emits events, and who reads them."""
SINK, ARRIVED = "sink", "arrived"
"""Where a relay delivers them, and what happens there."""
OPERATOR = "ops"
"""Who sees to what could not be delivered."""


class Call(NamedTuple):
    """An operation that the store executed, and what came of it."""

    op: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Any
    error: Exception | None
    clock: datetime
    """What the store's clock said."""

    def result_of(self, claim: RunRecord) -> Result | None:
        """What this call reported of this claim, if anything."""
        results: Iterable[Result] = ()
        if self.op == "claim" and len(self.args) > 3:
            results = self.args[3]
        mine = claim.id, claim.claim, claim.node
        return next((r for r in results if (r.run_id, r.claim, r.node) == mine), None)


class Event(NamedTuple):
    at: float
    source: str
    """The node's name, or who else."""
    kind: str
    what: str
    detail: Any

    def __str__(self) -> str:
        shown = show(self.detail)
        return f"{self.at:10.6f}  {self.source:<7} {self.kind:<10} {self.what:<20} {shown}".rstrip()


@dataclass(slots=True)
class History:
    """One simulated run of a cluster."""

    seed: int
    settings: Settings
    store: str = "memory"
    """What it was kept in."""
    quiet_from: float = 0.0
    """When the last fault ended and everything was put right."""
    until: float = 0.0
    events: list[Event] = field(default_factory=list)
    closed: bool = False

    def add(self, at: float, source: str, kind: str, what: str, detail: Any = None) -> None:
        if not self.closed:
            self.events.append(Event(at, source, kind, what, detail))

    def of(self, *kinds: str) -> Iterator[tuple[int, Event]]:
        """The events of these kinds, with their places in the history."""
        for place, event in enumerate(self.events):
            if event.kind in kinds:
                yield place, event

    def lines(self) -> Iterator[str]:
        yield f"seed {self.seed}, quiet from {self.quiet_from:.3f}, until {self.until:.3f}"
        for event in self.events:
            yield str(event)

    def digest(self) -> str:
        """Equal digests: the very same history."""
        text = hashlib.sha256()
        for line in self.lines():
            text.update(line.encode())
        return text.hexdigest()

    def around(self, place: int, before: int = 25, after: int = 5) -> Iterable[str]:
        for at in range(max(0, place - before), min(len(self.events), place + after + 1)):
            yield f"{'>' if at == place else ' '} {self.events[at]}"


def show(value: Any) -> str:
    """Short, and the same in every process: no addresses, no order of sets."""
    match value:
        case None:
            return "-"
        case str():
            return value
        case bool() | int():
            return str(value)
        case float():
            return f"{value:g}"
        case datetime():
            return f"{(value - EPOCH).total_seconds():.6f}".rstrip("0").rstrip(".") + "s"
        case Exception():
            return f"{type(value).__name__}: {value}"
        case Call():
            answer = show(value.result) if value.error is None else f"!{show(value.error)}"
            given = [show(arg) for arg in value.args]
            # What a node tells about itself differs from process to process.
            given += [f"{k}={show(v)}" for k, v in value.kwargs.items() if k != "info"]
            return f"({', '.join(given)}) -> {answer}"
        case Grant():
            return f"{value.name}#{value.term} of {value.holder}"
        case LeaseRecord():
            state = "live" if value.live else "not live"
            return f"{value.name}#{value.term} of {value.holder} ({state})"
        case RunRecord():
            state = f"{value.state}, attempt {value.attempt}"
            claim = f" by {value.node}" if value.node else ""
            return f"run {value.id} of {value.schedule or value.task} ({state}{claim})"
        case Schedule():
            plan = f"v{value.version} next {show(value.next_nominal)}"
            return f"{value.name} {plan}{'' if value.active else ' paused'}"
    return _show_collection(value)


def _show_collection(value: Any) -> str:
    if isinstance(value, LoggedEvent):
        return f"event {value.id} [{value.key}] at {value.position} (#{value.key_number})"
    if isinstance(value, Attempt):
        shown = value.outcome or "running"
        return f"attempt {value.attempt} of run {value.run} ({shown}, claim {value.claim})"
    if isinstance(value, set | frozenset):
        return "{" + ", ".join(sorted(map(show, value))) + "}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {show(v)}" for k, v in value.items()) + "}"
    if is_dataclass(value) and not isinstance(value, type):
        inner = (f"{f.name}={show(getattr(value, f.name))}" for f in fields(value))
        return f"{type(value).__name__}({', '.join(inner)})"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(show, value)) + "]"
    return str(value)
