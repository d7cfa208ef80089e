"""The audit: who changed what, and from where."""

from __future__ import annotations

from typing import Protocol

from tenure.model import AuditLine, Fence, NewAction


class AuditStore(Protocol):
    """A line for each change that a person or program has asked for.

    A line is written before the change and completed after it, so there is no change without a
    line, whichever store the change is made in, and even if its process dies in between. Lines are
    never changed otherwise.
    """

    async def begin(self, action: NewAction) -> int:
        """Write a line without an outcome, at the store's time. Returns its number, which is
        greater than those of all lines before it."""
        ...

    async def end(self, line: int, outcome: str) -> None:
        """Complete a line. One that has an outcome keeps it."""
        ...

    async def find(
        self, *, limit: int = 50, below: int | None = None, subject: str | None = None
    ) -> list[AuditLine]:
        """The newest lines first, at most `limit`; with `below`, those with a lower number; with
        `subject`, those about that."""
        ...

    async def prune(self, fence: Fence, older_than: float, limit: int) -> int:
        """Delete the oldest lines, at most `limit`, that are older than so many seconds. Returns
        how many."""
        ...
