"""Editions: what each app's code declares."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from tenure.backends.base import RUNS
from tenure.backends.memory.office import MemoryOffice
from tenure.backends.memory.tables import MemoryTables
from tenure.model import Declared, Edition, Fence, TaskRule


class MemoryEditions:
    """The editions of all apps."""

    def __init__(self, tables: MemoryTables, office: MemoryOffice) -> None:
        self._tables = tables
        self._office = office
        self._editions: dict[tuple[str, str], Edition] = {}
        self._last = 0

    async def announce(self, app: str, edition: Edition) -> None:
        known = self._editions.get((app, edition.digest))
        if known is None:
            self._last += 1
            known = replace(
                edition,
                definitions=dict(edition.definitions),
                tasks=dict(edition.tasks),
                number=self._last,
            )
        now = self._tables.clock.now()
        self._editions[app, edition.digest] = replace(known, announced_at=now)

    async def declared(self, app: str) -> Declared:
        schedules = [s for s in self._tables.schedules.values() if s.spec.app == app]
        rules = {task: rule for (of, task), rule in self._tables.rules.items() if of == app}
        schedules.sort(key=lambda schedule: schedule.name)
        return Declared(self._tables.clock.now(), schedules, self._of(app), rules)

    async def set_rules(self, app: str, rules: Mapping[str, TaskRule]) -> None:
        t = self._tables
        t.rules |= {(app, task): rule for task, rule in rules.items()}
        t.rules = {key: rule for key, rule in t.rules.items() if rule != TaskRule()}
        t.wakeups.send(RUNS)

    async def prune(
        self,
        fence: Fence | None,
        older_than: float,
        keep: Collection[tuple[str, str]],
        *,
        dry_run: bool = False,
    ) -> int:
        if fence is not None:
            self._office.check(fence)
        now, age = self._tables.clock.now(), timedelta(seconds=older_than)
        before = now - age
        old = [
            (app, edition.digest)
            for app in {app for app, _ in self._editions}
            for edition in self._of(app)[:-1]
            if edition.announced_at is not None
            and edition.announced_at < before
            and (app, edition.digest) not in keep
        ]
        if dry_run:
            return len(old)
        used_apps = {app for app, _ in keep}
        last: dict[str, datetime] = {}
        for (app, _), edition in self._editions.items():
            last[app] = max(edition.announced_at or now, last.get(app, edition.announced_at or now))
        gone = {app for app, when in last.items() if when < before} - used_apps
        t = self._tables
        t.rules = {key: rule for key, rule in t.rules.items() if key[0] not in gone}
        for key in old:
            del self._editions[key]
        for key in keep:
            used = self._editions.get(key)
            if used is not None and used.announced_at and used.announced_at < now - age / 2:
                self._editions[key] = replace(used, announced_at=now - age / 4)
        return len(old)

    def _of(self, app: str) -> list[Edition]:
        found = [edition for (of, _), edition in self._editions.items() if of == app]
        return sorted(found, key=lambda edition: edition.number)
