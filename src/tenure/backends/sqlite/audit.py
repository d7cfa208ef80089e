"""The audit, on SQLite."""

from __future__ import annotations

import sqlite3
from datetime import timedelta

from tenure.backends.shared import audit_rows
from tenure.backends.shared.sql import load
from tenure.backends.sqlite.connection import Transactions
from tenure.backends.sqlite.office import SQLiteOffice
from tenure.model import AuditLine, Fence, NewAction
from tenure.process.clock import Clock, from_micros, to_micros

_sql = load("tenure.backends.sqlite", "sql/audit.sql")


class SQLiteAudit:
    """The lines of one namespace."""

    def __init__(
        self, connection: Transactions, office: SQLiteOffice, namespace: str, clock: Clock
    ) -> None:
        self._connection = connection
        self._office = office
        self._namespace = namespace
        self._clock = clock

    async def begin(self, action: NewAction) -> int:
        def work(c: sqlite3.Connection) -> int:
            named = self._named(now=to_micros(self._clock.now()), **audit_rows.values(action))
            line = c.execute(_sql["begin"], named).lastrowid
            assert line is not None
            return line

        return await self._connection.write(work)

    async def end(self, line: int, outcome: str) -> None:
        values = self._named(line=line, outcome=outcome)
        await self._connection.write(lambda c: c.execute(_sql["end"], values).rowcount)

    async def find(
        self, *, limit: int = 50, below: int | None = None, subject: str | None = None
    ) -> list[AuditLine]:
        values = self._named(limit=limit, below=below, subject=subject)
        sql = _sql["find" if subject is None else "find_about"]
        rows = await self._connection.read(lambda c: c.execute(sql, values).fetchall())
        return [audit_rows.line(row, from_micros) for row in rows]

    async def prune(self, fence: Fence, older_than: float, limit: int) -> int:
        def work(c: sqlite3.Connection) -> int:
            self._office.check(c, fence)
            before = to_micros(self._clock.now() - timedelta(seconds=older_than))
            return c.execute(_sql["prune"], self._named(before=before, limit=limit)).rowcount

        return await self._connection.write(work)

    def _named(self, **values: object) -> dict[str, object]:
        return {"namespace": self._namespace, **values}
