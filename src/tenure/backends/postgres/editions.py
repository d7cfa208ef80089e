"""Editions on PostgreSQL: what each app's code declares."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import partial

from tenure.backends.base import RUNS
from tenure.backends.postgres.connections.database import Database
from tenure.backends.postgres.office import PostgresOffice
from tenure.backends.postgres.statements import arrays, as_it_is
from tenure.backends.postgres.wakeups import PostgresWakeups
from tenure.backends.shared import rows as from_rows
from tenure.model import Declared, Edition, Fence, TaskRule

_schedule = partial(from_rows.schedule, when=as_it_is)
_edition = partial(from_rows.edition, when=as_it_is)


class PostgresEditions:
    """The editions of one namespace."""

    def __init__(
        self,
        database: Database,
        office: PostgresOffice,
        wakeups: PostgresWakeups,
        namespace: str,
    ) -> None:
        self._database = database
        self._office = office
        self._namespace = namespace
        self._sql = database.statements("sql/editions.sql")
        self._wake = {"channel": wakeups.channel, "topic": RUNS}

    async def announce(self, app: str, edition: Edition) -> None:
        values = {
            "namespace": self._namespace,
            "app": app,
            "digest": edition.digest,
            "definitions": json.dumps(dict(edition.definitions)),
            "tasks": from_rows.written_rules(edition.tasks),
        }
        await self._database.run((self._sql["announce"], values))

    async def declared(self, app: str) -> Declared:
        values = {"namespace": self._namespace, "app": app}
        # Editions last, so that every edition which has changed one of these schedules is there.
        clock, schedules, editions, rules = await self._database.run(
            (self._sql["now"], {}),
            (self._sql["schedules"], values),
            (self._sql["editions"], values),
            (self._sql["rules"], values),
        )
        return Declared(
            clock[0]["now"],
            [_schedule(row) for row in schedules],
            [_edition(row) for row in editions],
            {row["name"]: from_rows.rule(row) for row in rules},
        )

    async def set_rules(self, app: str, rules: Mapping[str, TaskRule]) -> None:
        kept = [
            (task, *from_rows.rule_columns(rule).values())
            for task, rule in rules.items()
            if rule != TaskRule()
        ]
        values = {
            "namespace": self._namespace,
            "app": app,
            "ended": [task for task, rule in rules.items() if rule == TaskRule()],
            **arrays(kept, ("name", *from_rows.rule_columns(TaskRule()))),
        }
        await self._database.run(
            (self._sql["lock_rules"], values),
            (self._sql["end_rules"], values),
            (self._sql["set_rules"], values),
            (self._sql["wake"], self._wake),
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
            rows = await self._office.under(fence, self._sql["prune"], values)
        pruned: int = rows[0]["pruned"]
        return pruned
