"""Editions on SQLite: what each app's code declares."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping
from datetime import timedelta
from functools import partial

from tenure.backends.base import RUNS
from tenure.backends.shared import rows as from_rows
from tenure.backends.shared.sql import load
from tenure.backends.sqlite.connection import Connection
from tenure.backends.sqlite.office import SQLiteOffice
from tenure.backends.sqlite.wakeups import Sends
from tenure.model import Declared, Edition, Fence, TaskRule
from tenure.process.clock import Clock, from_micros, to_micros

_schedule = partial(from_rows.schedule, when=from_micros)
_edition = partial(from_rows.edition, when=from_micros)
_sql = load("tenure.backends.sqlite", "sql/editions.sql")


class SQLiteEditions:
    """The editions of one namespace."""

    def __init__(
        self,
        connection: Connection,
        office: SQLiteOffice,
        wakeups: Sends,
        namespace: str,
        clock: Clock,
    ) -> None:
        self._connection = connection
        self._office = office
        self._wakeups = wakeups
        self._namespace = namespace
        self._clock = clock

    async def announce(self, app: str, edition: Edition) -> None:
        values = {
            "namespace": self._namespace,
            "app": app,
            "digest": edition.digest,
            "definitions": json.dumps(dict(edition.definitions)),
            "tasks": from_rows.written_rules(edition.tasks),
            "now": to_micros(self._clock.now()),
        }
        await self._connection.write(lambda c: c.execute(_sql["announce"], values).rowcount)

    async def declared(self, app: str) -> Declared:
        values = {"namespace": self._namespace, "app": app}

        def work(c: sqlite3.Connection) -> Declared:
            c.execute("BEGIN")  # all reads see the same state
            try:
                schedules = c.execute(_sql["schedules"], values).fetchall()
                editions = c.execute(_sql["editions"], values).fetchall()
                rules = c.execute(_sql["rules"], values).fetchall()
            finally:
                c.execute("COMMIT")
            return Declared(
                self._clock.now(),
                [_schedule(row) for row in schedules],
                [_edition(row) for row in editions],
                {row["name"]: from_rows.rule(row) for row in rules},
            )

        return await self._connection.read(work)

    async def set_rules(self, app: str, rules: Mapping[str, TaskRule]) -> None:
        of_app = {"namespace": self._namespace, "app": app}

        def work(c: sqlite3.Connection) -> None:
            for task, rule in rules.items():
                values = {**of_app, "name": task, **from_rows.rule_columns(rule)}
                c.execute(_sql["end_rule" if rule == TaskRule() else "set_rule"], values)

        await self._connection.write(work)
        self._wakeups.send(RUNS)

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
                self._office.check(c, fence)
            c.execute(_sql["end_rules_of_gone"], values)
            c.execute(_sql["remember"], values)
            return c.execute(_sql["prune"], values).rowcount

        def count(c: sqlite3.Connection) -> int:
            return int(c.execute(_sql["prunable"], values).fetchone()[0])

        return await (self._connection.read(count) if dry_run else self._connection.write(work))
