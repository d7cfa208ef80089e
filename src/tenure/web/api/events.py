"""Events, and the groups that read them."""

from __future__ import annotations

from datetime import UTC
from http import HTTPStatus
from typing import Annotated, Any

from msgspec import Meta

from tenure.events.replaying import replay
from tenure.model import UNREAD_COUNTED, EventGroup, LoggedEvent
from tenure.tasks.arguments import ID_MOST
from tenure.web.api import cursors
from tenure.web.api.access import Opened
from tenure.web.api.problems import missing
from tenure.web.api.table import Call, Operation, Reply
from tenure.web.api.values import (
    Answer,
    Asked,
    Cursor,
    Limit,
    Moment,
    Time,
    Wanted,
    iso,
    iso_or_none,
    read_time,
    stored_json,
)


class EventAnswer(Answer):
    """An event. Without a position it is not readable yet."""

    id: str
    position: int | None
    topic: str
    type: str
    source: str
    subject: str | None
    time: Moment
    key: str | None
    key_number: int | None
    data: Any
    headers: dict[str, str]
    traceparent: str | None
    recorded_at: Moment


class EventPage(Answer):
    """Events, the newest first. Those without a position come first, on the first page only."""

    items: list[EventAnswer]
    next: str | None


class GroupAnswer(Answer):
    """How far a group has come. `unread_is_more`: the count ended there."""

    topic: str
    group: str
    position: int
    unread: int
    unread_is_more: bool
    oldest_unread: Moment | None
    moved_at: Moment


class Groups(Answer):
    """By topic and name."""

    items: list[GroupAnswer]


class ListEvents(Asked):
    """Filters."""

    topic: Wanted | None = None
    type: Wanted | None = None
    key: Wanted | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class ListGroups(Asked):
    """Of which topic."""

    topic: Wanted | None = None


class ReplayGroup(Asked):
    """Where the group goes on: after a position, or with what was stored at a time or later."""

    after: Annotated[int, Meta(ge=0, le=ID_MOST)] | None = None
    since: Time | None = None


def answer(event: LoggedEvent) -> EventAnswer:
    return EventAnswer(
        id=event.id,
        position=event.position or None,
        topic=event.topic,
        type=event.type,
        source=event.source,
        subject=event.subject,
        time=iso(event.time),
        key=event.key,
        key_number=event.key_number or None,
        data=stored_json(event.data),
        headers=dict(event.headers),
        traceparent=event.traceparent,
        recorded_at=iso(event.recorded_at),
    )


def group_answer(group: EventGroup) -> GroupAnswer:
    return GroupAnswer(
        topic=group.topic,
        group=group.name,
        position=group.position,
        unread=group.unread,
        unread_is_more=group.unread >= UNREAD_COUNTED,
        oldest_unread=iso_or_none(group.oldest),
        moved_at=iso(group.moved_at),
    )


async def list_events(opened: Opened, call: Call) -> EventPage:
    asked: ListEvents = call.query
    below = cursors.number("events", asked.cursor)
    found = await opened.stores.events.find(
        topic=asked.topic, type=asked.type, key=asked.key, limit=asked.limit + 1, below=below
    )
    shown, following = found[: asked.limit], None
    if len(found) > asked.limit:
        following = cursors.encode("events", shown[-1].position or ID_MOST)
    return EventPage(items=[answer(event) for event in shown], next=following)


async def get_event(opened: Opened, call: Call) -> EventAnswer:
    event = call.path["event"]
    found = await opened.stores.events.find([event])
    if not found:
        raise missing(f"there is no event {event!r}; old ones are deleted once they are read.")
    return answer(found[0])


async def list_groups(opened: Opened, call: Call) -> Groups:
    asked: ListGroups = call.query
    found = await opened.stores.events.groups(asked.topic)
    return Groups(items=[group_answer(group) for group in found])


async def replay_group(opened: Opened, call: Call) -> GroupAnswer:
    body: ReplayGroup = call.body
    since = None if body.since is None else read_time("since", body.since)
    if since is not None and since.tzinfo is None:
        since = since.replace(tzinfo=UTC)
    moved = await replay(
        opened.stores.events, call.path["topic"], call.path["group"], after=body.after, since=since
    )
    return group_answer(moved)


async def drop_group(opened: Opened, call: Call) -> Reply:
    topic, name = call.path["topic"], call.path["group"]
    if not await opened.stores.events.drop(topic, name):
        raise missing(f"topic {topic!r} has no group {name!r}.")
    return Reply(None)


OPERATIONS = (
    Operation(
        "GET",
        "/events",
        "listEvents",
        "List events, the newest first.",
        list_events,
        EventPage,
        query=ListEvents,
    ),
    Operation(
        "GET",
        "/events/{event}",
        "getEvent",
        "Show an event.",
        get_event,
        EventAnswer,
        problems=(HTTPStatus.NOT_FOUND,),
    ),
    Operation(
        "GET",
        "/groups",
        "listGroups",
        "List how far each group of consumers has read.",
        list_groups,
        Groups,
        query=ListGroups,
    ),
    Operation(
        "POST",
        "/groups/{topic}/{group}/replay",
        "replayGroup",
        "Let a group read events again, or leave some out.",
        replay_group,
        GroupAnswer,
        body=ReplayGroup,
        problems=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    ),
    Operation(
        "DELETE",
        "/groups/{topic}/{group}",
        "dropGroup",
        "Forget a group, and how far it has read.",
        drop_group,
        None,
        (HTTPStatus.NO_CONTENT,),
        problems=(HTTPStatus.NOT_FOUND,),
    ),
)
