"""Releases: what the code of apps declares."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta

from tenure.backends.memory.tables import MemoryTables
from tenure.model import Declared, Fence, Release


class MemoryReleases:
    """The releases of all apps."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables
        self._releases: dict[tuple[str, str], Release] = {}
        self._last = 0

    async def announce(self, app: str, release: Release) -> None:
        known = self._releases.get((app, release.digest))
        if known is None:
            self._last += 1
            known = replace(release, definitions=dict(release.definitions), number=self._last)
        now = self._tables.clock.now()
        self._releases[app, release.digest] = replace(known, announced_at=now)

    async def declared(self, app: str) -> Declared:
        schedules = [s for s in self._tables.schedules.values() if s.spec.app == app]
        return Declared(
            self._tables.clock.now(), sorted(schedules, key=lambda s: s.name), self._of(app)
        )

    async def prune(
        self,
        fence: Fence | None,
        older_than: float,
        keep: Collection[tuple[str, str]],
        *,
        dry_run: bool = False,
    ) -> int:
        if fence is not None:
            self._tables.check(fence)
        now, age = self._tables.clock.now(), timedelta(seconds=older_than)
        before = now - age
        old = [
            (app, release.digest)
            for app in {app for app, _ in self._releases}
            for release in self._of(app)[:-1]
            if release.announced_at is not None
            and release.announced_at < before
            and (app, release.digest) not in keep
        ]
        if dry_run:
            return len(old)
        for key in old:
            del self._releases[key]
        for key in keep:
            used = self._releases.get(key)
            if used is not None and used.announced_at and used.announced_at < now - age / 2:
                self._releases[key] = replace(used, announced_at=now - age / 4)
        return len(old)

    def _of(self, app: str) -> list[Release]:
        found = [release for (of, _), release in self._releases.items() if of == app]
        return sorted(found, key=lambda release: release.number)
