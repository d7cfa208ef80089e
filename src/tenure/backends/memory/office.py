"""The office: which term may write."""

from __future__ import annotations

from tenure.errors import Fenced
from tenure.model import Fence


class MemoryOffice:
    """The fence of each scope."""

    def __init__(self) -> None:
        self.fences: dict[str, Fence] = {}

    async def take(self, fence: Fence) -> Fence:
        stored = self.fences.get(fence.scope)
        if stored is not None and stored.term >= fence.term:
            return stored
        self.fences[fence.scope] = fence
        return fence

    def term(self, scope: str) -> int:
        fence = self.fences.get(scope)
        return fence.term if fence else 0

    def check(self, fence: Fence) -> None:
        """The first step of every leader's write."""
        if self.fences.get(fence.scope) != fence:
            raise Fenced(f"term {fence.term} of {fence.holder} is not in office")
