"""Relays: how far each has come in delivering the log of events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tenure.model import (
    Acknowledgement,
    Fence,
    Lane,
    LoggedEvent,
    ParkedEvent,
    RelayProgress,
    RelayStatus,
)

REPLAYS = 100
"""How many events that were passed over a relay takes up again at a time."""


class RelayStore(Protocol):
    """What relays have delivered. `events/delivery.py` says how they deliver.

    **A relay that was frozen can only repeat.** All that it writes is under the fence of its lease,
    so it cannot move on, or back, what its successor has written.

    **Nothing is kept twice.** A lane that is held is one row; its events stay in the log, and
    `EventStore.trim` counts a relay among their readers: from the lowest position on that the
    relay still needs of a topic, events are unread.

    **An operator's change raises the revision**, and the relay then goes on from what is stored. So
    neither overwrites what the other did.
    """

    async def resume(
        self,
        fence: Fence,
        name: str,
        location: str,
        topics: Sequence[str] = (),
        *,
        from_now: bool = False,
    ) -> RelayProgress:
        """How far the relay has come. If it is new, it begins with the oldest event that is kept,
        or with those that get their positions from now on. Notes where it delivers to, and which
        topics: none means all. Raises `Fenced` as `fire` does."""
        ...

    async def read(self, topics: Sequence[str], after: int, limit: int = 100) -> list[LoggedEvent]:
        """The events of these topics, or of all if there are none, with a position above `after`,
        in their order."""
        ...

    async def read_lane(
        self, topics: Sequence[str], lane: Lane, first: int, last: int, limit: int = 100
    ) -> list[LoggedEvent]:
        """The same of this lane, from the position `first` to `last`, both included."""
        ...

    async def acknowledge(
        self, fence: Fence, name: str, revision: int, done: Acknowledgement
    ) -> bool:
        """Store all of this, or nothing: False, if there is no such relay, if an operator has
        changed something since this revision, or if another term takes office at this moment; then
        `resume` tells. Never moves the cursor back. Raises `Fenced` as `fire` does."""
        ...

    async def revision(self, name: str) -> int:
        """The present revision; 0 if there is no such relay. Cheap."""
        ...

    async def all(self) -> list[RelayStatus]:
        """Every relay, by name."""
        ...

    # -- for operators ----------------------------------------------------------------------------

    async def parked(
        self,
        name: str | None = None,
        limit: int = 100,
        *,
        positions: Sequence[int] | None = None,
    ) -> list[ParkedEvent]:
        """The events that wait for an operator, by relay and position: of this relay, at these
        positions. Of those that hold their lanes, how many of the relay's events are behind each in
        that lane, for the first `WAITING_LISTED`; what has no position yet is not counted."""
        ...

    async def replay(self, name: str, positions: Sequence[int] | None = None) -> int:
        """Have parked events sent again, with all their tries: those at these positions, or all of
        this relay. Wakes it. Returns how many."""
        ...

    async def drop(self, name: str, positions: Sequence[int] | None = None) -> int:
        """Give parked events up: their lanes go on without them. Wakes the relay. Returns how
        many."""
        ...

    async def revive(self, name: str) -> bool:
        """Let a relay go on whose sink wanted no more events. Wakes it. False if it had not
        ended."""
        ...

    async def forget(self, name: str) -> bool:
        """Forget this relay, and how far it has come: nothing is kept for it any more. False if
        there is none."""
        ...
