"""Which releases of an app live, as far as one node can tell from the presences of nodes.

Whoever is away counts as live for a while, `patience` seconds on our own clock. A node that we saw
and that left or died may be restarting. One whose presence expired, or is not there any more, may
be alive: when nobody could reach the lease store everybody's presence has expired, and one that was
emptied has forgotten them all. Only of those that had left or were proven dead before we first
looked nobody expects anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tenure.model import LeaseRecord

Release = str | None
"""A digest; None if a node does not say, as older code does not."""


@dataclass(frozen=True, slots=True)
class Roll:
    """What one look at the presences says."""

    at: float
    live: frozenset[Release]
    others: frozenset[tuple[str, Release, bool]]
    """The nodes of other releases, present and past, and whether they count as live. While this is
    the same, nobody of them has come or gone."""
    settles_in: float | None = None
    """When the first of them that is away ceases to count."""


class Roster:
    """What one node has seen of the others of its app."""

    def __init__(self, app: str, release: str, patience: float) -> None:
        self._app = app
        self._release = release
        self._patience = patience
        self._known: dict[str, Release] = {}
        """The nodes that counted as live at the last look."""
        self._away: dict[str, float] = {}
        """Since when nodes have been away."""
        self._dead: set[str] = set()
        """Those that are proven to be."""

    def doubtful(self, records: Iterable[LeaseRecord]) -> list[LeaseRecord]:
        """Those that nobody has seen alive: a proof of their death would settle it."""
        return [record for record in self._expired(records) if record.name not in self._away]

    def look(
        self, records: Collection[LeaseRecord], now: float, dead: Collection[str] = ()
    ) -> Roll:
        """Note who is there. `dead` are the names of those that are proven to be."""
        self._dead = (self._dead | set(dead)) & {record.name for record in records}
        told = {record.name: _release_of(record) for record in records if self._is_of_app(record)}
        live = {record.name for record in records if record.live and record.name in told}
        away = {record.name for record in self._expired(records)} | (self._known.keys() - live)
        self._away = {name: self._away.get(name, now) for name in away}
        spared = {n for n, since in self._away.items() if now - since < self._patience}
        self._known = {
            name: told[name] if name in told else self._known[name] for name in live | spared
        }
        others = {n for n, release in self._known.items() if release != self._release}
        left = [self._patience - (now - self._away[name]) for name in spared & others]
        return Roll(
            at=now,
            live=frozenset(self._known.values()),
            others=frozenset(
                (name, release, name in self._known)
                for name, release in {**told, **self._known}.items()
                if release != self._release
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


def _release_of(record: LeaseRecord) -> Release:
    release = record.info.get("release")
    return release if isinstance(release, str) else None


def declared_by(presences: Iterable[LeaseRecord]) -> set[tuple[str, str]]:
    """App and release of each of these nodes, of those that say so."""
    told = ((record.info.get("app"), _release_of(record)) for record in presences)
    return {(app, release) for app, release in told if isinstance(app, str) and release is not None}
