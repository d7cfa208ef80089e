"""Notices when the store's clock jumps against this node's boot clock. Pure.

Forward: the jump may be a mistake that is corrected within a minute, and firing cannot be undone.
So firing is held until the jump has lasted. Backward: nothing can fire twice or early, so nothing
is held; the jump is only reported.
"""

from __future__ import annotations

from datetime import datetime


class JumpWatch:
    """Compares the two clocks at every observation."""

    def __init__(self, limit: float, hold: float) -> None:
        self._limit = limit
        self._hold = hold
        self._offset: float | None = None
        self._jumped_at: float | None = None
        self._alike_since: float | None = None
        """Since when neither clock was set."""
        self.jump = 0.0
        """How many seconds the store's clock has jumped: in the present jump, or the last one."""

    @property
    def held(self) -> bool:
        return self._jumped_at is not None

    def forget(self) -> None:
        """Start over: what the clocks did while this node did not watch says nothing."""
        self._offset = self._jumped_at = self._alike_since = None

    def trusts(self, store: datetime, boot: float) -> bool:
        """Have the clocks agreed for at least as long as a jump is held? Then actions that cannot
        be undone may rely on the store's clock. A first look says nothing: the clock may have
        jumped just before, while another node watched."""
        if self._offset is None or self._alike_since is None or self.held:
            return False
        off = store.timestamp() - boot - self._offset
        return abs(off) <= self._limit and boot - self._alike_since >= self._hold

    def observe(self, store: datetime, boot: float) -> str | None:
        """None if nothing changed, else "held", "accepted" (it lasted), "gone" or "backward"."""
        offset = store.timestamp() - boot
        if self._offset is None:
            self._offset, self._alike_since = offset, boot
            return None
        jump = offset - self._offset
        if jump > self._limit:
            self.jump = jump
            if self._jumped_at is None:
                self._jumped_at = boot
                return "held"
            if boot - self._jumped_at < self._hold:
                return None
            self._offset, self._jumped_at, self._alike_since = offset, None, boot
            return "accepted"
        self._offset = offset
        if self._jumped_at is not None:
            self._jumped_at, self._alike_since = None, boot
            return "gone"
        if jump < -self._limit:
            self.jump, self._alike_since = jump, boot
            return "backward"
        return None
