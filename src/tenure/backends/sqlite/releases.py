"""Releases on SQLite: what the code of apps declares."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection
from datetime import timedelta
from functools import partial

from tenure.backends import rows as from_rows
from tenure.backends.sql import load
from tenure.backends.sqlite.connection import Connection
from tenure.clock import Clock, from_micros, to_micros
from tenure.model import Declared, Fence, Release

_schedule = partial(from_rows.schedule, when=from_micros)
_release = partial(from_rows.release, when=from_micros)
_sql = load("tenure.backends.sqlite", "sql/releases.sql")


class SQLiteReleases:
    """The releases of one namespace."""

    def __init__(
        self,
        connection: Connection,
        namespace: str,
        clock: Clock,
        check: Callable[[sqlite3.Connection, Fence], None],
    ) -> None:
        self._connection = connection
        self._namespace = namespace
        self._clock = clock
        self._check = check

    async def announce(self, app: str, release: Release) -> None:
        values = {
            "namespace": self._namespace,
            "app": app,
            "digest": release.digest,
            "definitions": json.dumps(dict(release.definitions)),
            "now": to_micros(self._clock.now()),
        }
        await self._connection.write(lambda c: c.execute(_sql["announce"], values).rowcount)

    async def declared(self, app: str) -> Declared:
        values = {"namespace": self._namespace, "app": app}

        def work(c: sqlite3.Connection) -> Declared:
            c.execute("BEGIN")  # both reads of one moment
            try:
                schedules = c.execute(_sql["schedules"], values).fetchall()
                releases = c.execute(_sql["releases"], values).fetchall()
            finally:
                c.execute("COMMIT")
            return Declared(
                self._clock.now(),
                [_schedule(row) for row in schedules],
                [_release(row) for row in releases],
            )

        return await self._connection.read(work)

    async def prune(
        self,
        fence: Fence | None,
        older_than: float,
        keep: Collection[tuple[str, str]],
        *,
        dry_run: bool = False,
    ) -> int:
        now, age = self._clock.now(), timedelta(seconds=older_than)
        values = {
            "namespace": self._namespace,
            "before": to_micros(now - age),
            "half": to_micros(now - age / 2),
            "quarter": to_micros(now - age / 4),
            "keep": json.dumps([list(pair) for pair in keep]),
        }

        def work(c: sqlite3.Connection) -> int:
            if fence is not None:
                self._check(c, fence)
            c.execute(_sql["remember"], values)
            return c.execute(_sql["prune"], values).rowcount

        def count(c: sqlite3.Connection) -> int:
            return int(c.execute(_sql["prunable"], values).fetchone()[0])

        return await (self._connection.read(count) if dry_run else self._connection.write(work))
