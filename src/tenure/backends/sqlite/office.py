"""The office on SQLite: which term may write.

SQLite has one writer at a time, so reading the fence inside the transaction is all that fencing
needs: no other process can take office before the transaction has ended.
"""

from __future__ import annotations

import sqlite3

from tenure.backends.shared.lease_rows import known_term
from tenure.backends.shared.sql import load
from tenure.backends.sqlite.connection import Transactions
from tenure.errors import Fenced
from tenure.model import Fence

_sql = load("tenure.backends.sqlite", "sql/office.sql")


class SQLiteOffice:
    """The fences of one namespace."""

    def __init__(self, connection: Transactions, namespace: str) -> None:
        self._connection = connection
        self._namespace = namespace

    async def take(self, fence: Fence) -> Fence:
        values = self._named(scope=fence.scope, term=fence.term, holder=fence.holder)

        def work(c: sqlite3.Connection) -> Fence:
            if c.execute(_sql["take"], values).rowcount:
                return fence
            term, holder = c.execute(_sql["fence"], values).fetchone()
            return Fence(fence.scope, term, holder)

        return await self._connection.write(work)

    def term(self, c: sqlite3.Connection, scope: str) -> int:
        """The term in office; 0 if there is none."""
        row = c.execute(_sql["fence"], self._named(scope=scope)).fetchone()
        return known_term(row["term"]) if row else 0

    def check(self, c: sqlite3.Connection, fence: Fence) -> None:
        """The first step of every leader's transaction."""
        row = c.execute(_sql["fence"], self._named(scope=fence.scope)).fetchone()
        if row is None or (row["term"], row["holder"]) != (fence.term, fence.holder):
            raise Fenced(
                f"term {fence.term} of {fence.holder} is not in office:"
                f" {f'term {row[0]} of {row[1]} is' if row else 'nobody is'}. Nothing was changed."
            )

    def _named(self, **values: object) -> dict[str, object]:
        return {"namespace": self._namespace, **values}
