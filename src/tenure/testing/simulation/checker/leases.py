"""Leases, terms and the fence (G2).

terms grow            the terms of a name only grow
one holder per term   a term belongs to one holder, in the lease and in office
only its own          a renewal or release counts only for the present holder and term
trust                 no two holders trust the same lease at the same true time
old term              nothing is written under an old term once a newer one took office
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tenure.model import Fence, Grant, LeaseRecord
from tenure.testing.simulation.checker.violation import Violation
from tenure.testing.simulation.history import FAULT, STORE, TRUST, Call, Event, History

_FENCED_WRITES = frozenset(
    {"fire", "recover", "prune", "sequence", "trim", "resume", "acknowledge"}
)


def check_leases(history: History) -> Iterator[Violation]:
    model = _Leases()
    for place, event in history.of(STORE, TRUST, FAULT):
        for invariant, text in model.see(event):
            yield Violation(invariant, text, place, history)


Found = Iterator[tuple[str, str]]


class _Leases:
    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._current: dict[str, tuple[str, int] | None] = {}
        self._holders: dict[tuple[str, int], list[str]] = {}
        self._granted: dict[tuple[str, int], list[str]] = {}
        """The same, whatever the store of the leases has forgotten."""
        self._offices: dict[str, Fence] = {}
        self._fenced: set[str] = set()
        self._hinted = False
        """A rumour, an eviction or a store that forgot ends a fenced lease while its holder still
        trusts it: there it is the fence that counts."""

    def see(self, event: Event) -> Found:
        if event.kind == TRUST:
            yield from self._trust(event.detail)
        elif event.kind == FAULT:
            self._hinted |= event.what in ("rumour", "evict", "amnesia")
            if event.what == "amnesia":  # terms begin anew; only the office remembers them
                self._last.clear()
                self._current.clear()
                self._holders.clear()
        elif event.detail.error is None:
            yield from self._store(event.detail)

    def _store(self, call: Call) -> Found:
        if call.op == "acquire" and isinstance(call.result, Grant):
            yield from self._acquired(call.result, bool(call.kwargs.get("fenced")))
        elif call.op == "renew":
            for grant in sorted(call.result, key=lambda g: (g.name, g.term)):
                yield from self._only_its_own(grant, "renewed")
        elif call.op == "release" and call.result:
            yield from self._only_its_own(call.args[0], "released")
            self._current[call.args[0].name] = None
        elif call.op == "evict" and isinstance(call.result, LeaseRecord):
            self._current[call.result.name] = None
        elif call.op == "forget" and call.result:
            self._forget(call.args[0])
        elif call.op == "take" and call.result == call.args[0]:
            yield from self._took_office(call.args[0])
        elif call.op == "sequence" and not call.result:
            pass  # there was nothing to write
        elif call.op in _FENCED_WRITES:
            office = self._offices.get(call.args[0].scope)
            if office != call.args[0]:
                yield "old term", f"{call.op} under {call.args[0]} landed, in office is {office}"

    def _acquired(self, grant: Grant, fenced: bool) -> Found:
        last = self._last.get(grant.name, 0)
        if grant.term <= last:
            yield "terms grow", f"{grant} was granted after term {last}"
        self._last[grant.name] = max(last, grant.term)
        known = self._holders.setdefault((grant.name, grant.term), [])
        if known and grant.holder not in known:
            yield "one holder per term", f"{grant} was granted, and the same term to {known}"
        known.append(grant.holder)
        self._granted.setdefault((grant.name, grant.term), []).append(grant.holder)
        self._current[grant.name] = grant.holder, grant.term
        if fenced:
            self._fenced.add(grant.name)

    def _forget(self, prefix: str) -> None:
        """Which of these names, the store does not say: names that never come back."""
        for name in [name for name in self._last if name.startswith(prefix)]:
            del self._last[name]
        for name, term in [key for key in self._holders if key[0].startswith(prefix)]:
            del self._holders[name, term]

    def _only_its_own(self, grant: Grant, done: str) -> Found:
        current = self._current.get(grant.name)
        if current != (grant.holder, grant.term):
            yield "only its own", f"{grant} was {done}, but the lease is that of {current}"

    def _took_office(self, fence: Fence) -> Found:
        office = self._offices.get(fence.scope)
        if office is not None and fence.term < office.term:
            yield "terms grow", f"{fence} took office after {office}"
        if office is not None and fence.term == office.term and fence.holder != office.holder:
            yield "one holder per term", f"{fence} took office beside {office}"
        granted = self._granted.get((fence.scope, fence.term), [])
        if fence.holder not in granted:
            yield "one holder per term", f"{fence} took office, the term was granted to {granted}"
        self._offices[fence.scope] = fence

    def _trust(self, trusted: Any) -> Found:
        by_name: dict[str, str] = {}
        for name, holder, _ in trusted:
            if name in self._fenced and self._hinted:
                continue
            other = by_name.setdefault(name, holder)
            if other != holder:
                yield "trust", f"{other} and {holder} both trust the lease {name}"
