"""What a node does only while it may.

untrusted   a node asks for work only while it trusts its presence
hold        what is due only because the store's clock jumped forward, beyond the limit and before
            the leader's eyes, is not fired before the jump has lasted
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tenure.model import Kind, Occurrence
from tenure.node.node import LEADER
from tenure.node.presence import PRESENCE
from tenure.testing.simulation.checker.violation import Violation
from tenure.testing.simulation.history import (
    ASKS,
    EPOCH,
    FACT,
    NETWORK,
    OCCURRENCE,
    STORE,
    TRUST,
    Call,
    Event,
    History,
    show,
)

RATE = 1.02
"""How much faster than another a clock may be."""
AHEAD = 0.2
"""A leader looks ahead; that is no jump."""
Found = Iterator[tuple[str, str]]


def check_trust(history: History) -> Iterator[Violation]:
    model = _Trust(history)
    for place, event in history.of(STORE, OCCURRENCE, TRUST, NETWORK, FACT):
        for invariant, text in model.see(event):
            yield Violation(invariant, text, place, history)


@dataclass(slots=True)
class _Watch:
    """What a leader must have seen of the store's clock, in one term."""

    sure: bool = False
    """It has fired something: so it has read that clock."""
    offset: float = float("-inf")
    """The greatest that it may have seen without holding anything."""
    jumped: float | None = None
    """Since when it can have seen a jump."""


class _Trust:
    def __init__(self, history: History) -> None:
        self._settings = history.settings
        self._trusted: set[tuple[str, str]] = set()
        self._watches: dict[str, _Watch] = {}
        """Of each node that is in office."""
        self._call: Call | None = None

    def see(self, event: Event) -> Found:
        if event.kind == TRUST:
            self._trusted = {(name, holder) for name, holder, _ in event.detail}
        elif event.kind == NETWORK:
            node = event.detail
            if event.what == ASKS and (PRESENCE + node, node) not in self._trusted:
                yield "untrusted", f"{node} asks for work, and does not trust its presence"
        elif event.kind == FACT:
            if event.what == "leader.took_office" and event.detail.scope == LEADER:
                self._watches[event.source] = _Watch()
        elif event.kind == STORE:
            self._store(event)
        elif event.detail.kind is Kind.PLANNED:
            yield from self._occurred(event, event.detail)

    def _store(self, event: Event) -> None:
        call = self._call = event.detail
        watch = self._watches.get(event.source)
        if watch is None:
            return
        if call.op == "fire":
            watch.sure = watch.sure or watch.offset > float("-inf")
        elif call.op == "due" and call.error is None:
            self._looked(watch, event.at, _offset(event.at, call))

    def _looked(self, watch: _Watch, at: float, offset: float) -> None:
        jumped = watch.sure and offset - watch.offset > self._settings.jump_limit
        if not jumped:
            watch.offset, watch.jumped = max(offset, watch.offset), None
        elif watch.jumped is None:
            watch.jumped = at
        elif at - watch.jumped >= self._settings.jump_hold / RATE:
            watch.offset, watch.jumped = offset, None  # it lasted

    def _occurred(self, event: Event, row: Occurrence) -> Found:
        watch, call = self._watches.get(event.source), self._call
        if watch is None or watch.jumped is None or call is None or call.op != "fire":
            return
        held_for = event.at - watch.jumped
        until = watch.offset + event.at + AHEAD
        if held_for < self._settings.jump_hold / RATE and _seconds(row.last) > until:
            text = (
                f"{row.schedule} at {show(row.last)} ({row.state}) came {held_for:.3f} s after the"
                f" store's clock jumped by {_offset(event.at, call) - watch.offset:.1f} s"
            )
            yield "hold", text


def _offset(at: float, call: Call) -> float:
    return _seconds(call.clock) - at


def _seconds(moment: object) -> float:
    return (moment - EPOCH).total_seconds()  # type: ignore[operator, no-any-return]
