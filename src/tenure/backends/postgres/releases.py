"""Releases on PostgreSQL: what the code of apps declares."""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import partial

from tenure.backends import rows as from_rows
from tenure.backends.postgres.database import Database
from tenure.backends.postgres.schedules import PostgresSchedules
from tenure.backends.postgres.statements import arrays, as_it_is
from tenure.model import Declared, Fence, Release

_schedule = partial(from_rows.schedule, when=as_it_is)
_release = partial(from_rows.release, when=as_it_is)


class PostgresReleases:
    """The releases of one namespace."""

    def __init__(self, database: Database, namespace: str, schedules: PostgresSchedules) -> None:
        self._database = database
        self._namespace = namespace
        self._schedules = schedules
        self._sql = database.statements("sql/releases.sql")

    async def announce(self, app: str, release: Release) -> None:
        values = {
            "namespace": self._namespace,
            "app": app,
            "digest": release.digest,
            "definitions": json.dumps(dict(release.definitions)),
        }
        await self._database.run((self._sql["announce"], values))

    async def declared(self, app: str) -> Declared:
        values = {"namespace": self._namespace, "app": app}
        # Releases last: what was declared meanwhile is then among them, if not in force yet.
        clock, schedules, releases = await self._database.run(
            (self._schedules.statement("now"), {}),
            (self._sql["schedules"], values),
            (self._sql["releases"], values),
        )
        return Declared(
            clock[0]["now"],
            [_schedule(row) for row in schedules],
            [_release(row) for row in releases],
        )

    async def prune(
        self,
        fence: Fence | None,
        older_than: float,
        keep: Collection[tuple[str, str]],
        *,
        dry_run: bool = False,
    ) -> int:
        values = {
            "namespace": self._namespace,
            "older_than": older_than,
            "dry_run": dry_run,
            **dict.fromkeys(("scope", "term", "holder")),
            **arrays(list(keep), ("apps", "digests")),
        }
        if fence is None or dry_run:
            rows = await self._database.one(self._sql["prune"], values)
        else:
            office = self._schedules.of(fence)
            _, stood, rows = await self._database.run(
                self._schedules.entering(fence),
                (self._schedules.statement("fence"), office),
                (self._sql["prune"], values | office),
            )
            self._schedules.check(fence, stood)
        pruned: int = rows[0]["pruned"]
        return pruned
