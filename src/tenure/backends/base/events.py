"""Events: the log, and the order in which it is read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from tenure.model import EventGroup, Fence, LoggedEvent, NewEvent, PrunedEvents

UNREAD_KEPT = 28 * 86_400.0


def unread_kept(retention: float) -> float:
    """How many seconds events are kept that a group or relay has not read."""
    return max(4 * retention, UNREAD_KEPT)


class EventStore(Protocol):
    """The log of events. Events are added to it, and never changed.

    **A reader that remembers the last position it has read misses nothing.** Events have no
    position when they are stored: a transaction that stores one may commit later than another that
    began after it, and whoever had read the later one would never look back. So a leader gives
    positions to what is committed, in a transaction of its own under its fence. Positions only
    grow, and become visible in their order. A store with one writer at a time may give them at
    once: there, events are committed in the order in which they are stored.

    **Events of one topic and key keep their order**: if one was committed before another was
    stored, its position is lower. So is that of an earlier one of the same call.
    `LoggedEvent.key_number` counts them.

    **A group reads each event of a topic once.** Its consumers share the topic: what one of them
    takes, the others do not get, unless its transaction is rolled back. A store may let several
    consumers of a group take at the same time; then each key is read by one of them at a time.
    """

    async def append(self, events: Sequence[NewEvent]) -> int:
        """Store these, in one transaction, and wake the leader, or the readers if they can be read
        at once. Returns how many are new: an id that the log has is not stored again."""
        ...

    async def sequence(self, fence: Fence, limit: int = 1_000) -> int:
        """Give positions to at most `limit` events that are committed and have none, and wake the
        readers. Returns how many got one; 0 once all have.

        - Raises `Fenced` as `fire` does, if there are any.
        - Never changes a position. Two calls at the same time give none twice.
        """
        ...

    async def read(self, topic: str, after: int = 0, limit: int = 100) -> list[LoggedEvent]:
        """The events of this topic with a position above `after`, in their order."""
        ...

    async def find(
        self,
        ids: Sequence[str] | None = None,
        *,
        topic: str | None = None,
        type: str | None = None,  # noqa: A002 - the word that users know
        key: str | None = None,
        limit: int = 50,
        below: int | None = None,
    ) -> list[LoggedEvent]:
        """Events, newest first, also those without a position: those of `ids` that exist, or
        without `ids` all of them, up to `limit`. `topic`, `type` and `key` narrow that down. So
        does `below`, to those with a position lower than this one."""
        ...

    async def unplaced(self) -> LoggedEvent | None:
        """The oldest event without a position; None if all have one."""
        ...

    # -- groups -----------------------------------------------------------------------------------

    async def follow(self, topic: str, group: str, *, from_now: bool = False) -> bool:
        """Make a group of this topic, which begins with the oldest event that is kept, or with
        those that get their positions from now on. False, changing nothing, if there is one."""
        ...

    async def consume(self, topic: str, group: str, limit: int = 100) -> list[LoggedEvent]:
        """The next events for a consumer of this group, in the order of their positions, at most
        `limit`; and move the group on past them. Nothing if there is no such group.

        Made for the caller's own transaction (`Joins`): then the group moves on if the caller
        commits, together with what the caller has written, and stays where it was if not. Until
        then, no other consumer gets these events or later ones of their keys; where a store can
        have more than one writer, it gets others, and never waits.
        """
        ...

    async def has_unread(self, topic: str, group: str) -> bool:
        """Is there an event that this group has not read? A hint for one that waits, and cheap."""
        ...

    async def groups(self, topic: str | None = None) -> list[EventGroup]:
        """How far each group has come, by topic and name."""
        ...

    async def seek(self, topic: str, group: str, after: int) -> bool:
        """Let this group go on right after this position: earlier ones it reads again, those in
        between not at all. False if there is no such group."""
        ...

    async def position_at(self, topic: str, moment: datetime) -> int:
        """The position after which the events follow that were stored at this time or later."""
        ...

    async def drop(self, topic: str, group: str) -> bool:
        """Forget this group: nothing is kept for it any more. False if there is none."""
        ...

    async def trim(
        self,
        fence: Fence | None,
        older_than: float,
        unread_after: float,
        limit: int,
        *,
        dry_run: bool = False,
    ) -> PrunedEvents:
        """Delete events that were stored more than `older_than` seconds ago and that every group
        and relay of their topic has read; and those stored more than `unread_after` seconds ago,
        read or not. At most about `limit`, the oldest of each topic first. Events without a
        position stay.

        Never deletes an event of a key and keeps an earlier one, even if the store's clock was set
        back in between: the numbers of the key would start over.

        With a fence, raises `Fenced` as `fire` does; without one anyone may call it. With `dry_run`
        nothing is changed: it counts.
        """
        ...
