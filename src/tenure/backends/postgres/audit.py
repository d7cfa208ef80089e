"""The audit, on PostgreSQL."""

from __future__ import annotations

from typing import Any

from tenure.backends.postgres.office import PostgresOffice
from tenure.backends.postgres.statements import Transactions, as_it_is
from tenure.backends.shared import audit_rows
from tenure.model import AuditLine, Fence, NewAction


class PostgresAudit:
    """The lines of one namespace."""

    def __init__(self, database: Transactions, office: PostgresOffice, namespace: str) -> None:
        self._database = database
        self._office = office
        self._namespace = namespace
        self._sql = database.statements("sql/audit.sql")

    async def begin(self, action: NewAction) -> int:
        [row] = await self._one("begin", **audit_rows.values(action))
        line: int = row["id"]
        return line

    async def end(self, line: int, outcome: str) -> None:
        await self._one("end", line=line, outcome=outcome)

    async def find(
        self, *, limit: int = 50, below: int | None = None, subject: str | None = None
    ) -> list[AuditLine]:
        name = "find" if subject is None else "find_about"
        rows = await self._one(name, limit=limit, below=below, subject=subject)
        return [audit_rows.line(row, as_it_is) for row in rows]

    async def prune(self, fence: Fence, older_than: float, limit: int) -> int:
        values = {"older_than": older_than, "limit": limit}
        return len(await self._office.under(fence, self._sql["prune"], values))

    async def _one(self, name: str, **values: Any) -> list[dict[str, Any]]:
        return await self._database.one(self._sql[name], {"namespace": self._namespace, **values})
