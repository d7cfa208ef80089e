"""Sending a group of consumers back to events that it has read, or on past some that it has not."""

from __future__ import annotations

from datetime import UTC, datetime

from tenure.backends.address import Address
from tenure.backends.base import EventStore
from tenure.errors import ConfigError, Conflict, NotFound
from tenure.model import EventGroup
from tenure.printable import brief
from tenure.tasks.arguments import ID_MOST, check_name, whole
from tenure.tasks.event_checks import check_topic

_END = datetime(9999, 1, 1, tzinfo=UTC)
"""After all events."""


async def newest(events: EventStore, topic: str) -> int:
    """The last position that was given: what comes is after it. Stores know it without a search."""
    return await events.position_at(topic, _END)


async def replay(
    events: EventStore,
    topic: str,
    group: str,
    *,
    after: int | None = None,
    since: datetime | None = None,
    at: Address | None = None,
) -> EventGroup:
    """Let the group go on after this position, or with what was stored at this time or later.
    Returns where it is then. `at`: whose commands the errors name."""
    check_topic(topic)
    check_name(group, "group")
    if (after is None) is (since is None):
        raise ConfigError("give after, a position, or since, a time: one of them.")
    if since is not None:
        if getattr(since, "tzinfo", None) is None:
            raise ConfigError(
                f"since={brief(since)} is not a datetime with a time zone, such as"
                " datetime(2026, 1, 31, tzinfo=UTC)."
            )
        position = await events.position_at(topic, since)
    else:
        position, last = whole("after", after, 0, ID_MOST), await newest(events, topic)
        if position > last:
            raise Conflict(
                f"the last position in the log is {last}: if {group!r} went on after {position}, it"
                " would not read the events in between. Nothing was changed."
            )
    if not await events.seek(topic, group, position):
        raise no_group(topic, group, at)
    found = [each for each in await events.groups(topic) if each.name == group]
    if not found:  # dropped at this moment
        raise no_group(topic, group, at)
    return found[0]


def no_group(topic: str, group: str, at: Address | None) -> NotFound:
    shows = "" if at is None else f" `{at.command('events', 'groups')}` shows those that exist."
    return NotFound(f"topic {topic!r} has no group {group!r}.{shows}")
