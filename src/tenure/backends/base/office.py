"""The office: which term may write."""

from __future__ import annotations

from typing import Protocol

from tenure.model import Fence


class Office(Protocol):
    """In each scope one term is in office, and only its writes land.

    Every method that takes a `Fence` checks it in its own transaction, and raises `Fenced`,
    changing nothing, unless this term and holder are in office.
    """

    async def take(self, fence: Fence) -> Fence:
        """Make this term the only one whose writes land. Returns the fence that is in office
        now: this one, or the one that prevented it.

        - Succeeds if the stored term of the scope is strictly lower, or is this very fence.
        - An equal term of another holder is refused. A stored term above `HIGHEST_TERM` does not
          count.
        - Once it has succeeded, no write under a lower term can land, not even one that was under
          way: it waits for those to end. A leader that keeps writing cannot hold it up for ever.
        """
        ...
