"""Which editions of an app are live, as far as one node can tell from the presences of nodes.

A node that is away still counts as live for `patience` seconds on our own clock. If we saw it and
it left or died, it may be restarting. If its presence expired or is missing, it may be alive: when
the lease store was unreachable, all presences expired; and a store that was emptied has forgotten
them all. Only nodes that had left or were proven dead before we first looked do not count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tenure.model import LeaseRecord

Edition = str | None
"""A digest; None if a node does not tell it, like one with older code."""

EXPECTED = "expected "
"""The name of a node of which only the edition is known begins with this."""


@dataclass(frozen=True, slots=True)
class Roll:
    """What one look at the presences says."""

    at: float
    live: frozenset[Edition]
    others: frozenset[tuple[str, Edition, bool]]
    """The nodes of other editions, present and past, and whether they count as live. While this
    stays the same, none of them has come or gone."""
    settles_in: float | None = None
    """In how many seconds the first of them that is away ceases to count."""


class Roster:
    """What one node has seen of an app's nodes."""

    def __init__(self, app: str, edition: str, patience: float) -> None:
        self._app = app
        self._edition = edition
        self._patience = patience
        self._known: dict[str, Edition] = {}
        """The nodes that counted as live at the last look."""
        self._away: dict[str, float] = {}
        """Since when nodes have been away."""
        self._dead: set[str] = set()
        """Those that are proven dead."""

    def expect(self, editions: Iterable[Edition]) -> None:
        """Other nodes have seen these editions alive until now."""
        self._known |= {f"{EXPECTED}{edition}": edition for edition in editions}

    def doubtful(self, records: Iterable[LeaseRecord]) -> list[LeaseRecord]:
        """Expired presences that we never saw live: a proof of death would settle them."""
        return [record for record in self._expired(records) if record.name not in self._away]

    def look(
        self, records: Collection[LeaseRecord], now: float, dead: Collection[str] = ()
    ) -> Roll:
        """Record which nodes are there. `dead` has the names of those that are proven dead."""
        self._dead = (self._dead | set(dead)) & {record.name for record in records}
        told = {record.name: _edition_of(record) for record in records if self._is_of_app(record)}
        live = {record.name for record in records if record.live and record.name in told}
        away = {record.name for record in self._expired(records)} | (self._known.keys() - live)
        self._away = {name: self._away.get(name, now) for name in away}
        spared = {n for n, since in self._away.items() if now - since < self._patience}
        self._known = {
            name: told[name] if name in told else self._known[name] for name in live | spared
        }
        others = {n for n, edition in self._known.items() if edition != self._edition}
        left = [self._patience - (now - self._away[name]) for name in spared & others]
        return Roll(
            at=now,
            live=frozenset(self._known.values()),
            others=frozenset(
                (name, edition, name in self._known)
                for name, edition in {**told, **self._known}.items()
                if edition != self._edition
            ),
            settles_in=min(left, default=None),
        )

    def _expired(self, records: Iterable[LeaseRecord]) -> list[LeaseRecord]:
        """Those that have not left, and are not proven dead."""
        return [
            record
            for record in records
            if self._is_of_app(record)
            and record.holder is not None
            and not record.live
            and record.name not in self._dead
        ]

    def _is_of_app(self, record: LeaseRecord) -> bool:
        return record.info.get("app") == self._app


def _edition_of(record: LeaseRecord) -> Edition:
    edition = record.info.get("edition")
    return edition if isinstance(edition, str) else None


def live_editions(records: Iterable[LeaseRecord], app: str) -> set[Edition]:
    """The editions of this app's nodes that are present."""
    return {_edition_of(r) for r in records if r.live and r.info.get("app") == app}


def declared_by(presences: Iterable[LeaseRecord]) -> set[tuple[str, str]]:
    """App and edition of each of these nodes that tells them."""
    told = ((record.info.get("app"), _edition_of(record)) for record in presences)
    return {(app, edition) for app, edition in told if isinstance(app, str) and edition is not None}
