"""Events, and how far their readers have come, as JSON."""

from __future__ import annotations

from typing import Any

from tenure.cli.output import iso, loaded
from tenure.model import EventGroup, LoggedEvent, ParkedEvent, RelayStatus


def event_json(event: LoggedEvent) -> dict[str, Any]:
    return {
        "id": event.id,
        "position": event.position or None,
        "topic": event.topic,
        "type": event.type,
        "source": event.source,
        "subject": event.subject,
        "time": iso(event.time),
        "key": event.key,
        "key_number": event.key_number or None,
        "data": loaded(event.data),
        "headers": dict(event.headers),
        "traceparent": event.traceparent,
        "recorded_at": iso(event.recorded_at),
    }


def group_json(group: EventGroup) -> dict[str, Any]:
    return {
        "topic": group.topic,
        "group": group.name,
        "position": group.position,
        "unread": group.unread,
        "oldest_unread": iso(group.oldest),
        "moved_at": iso(group.moved_at),
    }


def relay_json(relay: RelayStatus) -> dict[str, Any]:
    return {
        "relay": relay.name,
        "sink": relay.location,
        "topics": list(relay.topics),
        "position": relay.position,
        "unread": relay.unread,
        "held": relay.held,
        "parked": relay.parked,
        "oldest_undelivered": iso(relay.oldest),
        "last_error": relay.reason or None,
        "trouble": relay.trouble or None,
        "ended": relay.ended,
        "moved_at": iso(relay.moved_at),
    }


def parked_json(parked: ParkedEvent) -> dict[str, Any]:
    return {
        "relay": parked.relay,
        "position": parked.position,
        "topic": parked.topic,
        "key": parked.key,
        "tries": parked.tries,
        "reason": parked.reason,
        "parked_at": iso(parked.parked_at),
        "holds": parked.holds,
        "waiting": parked.waiting,
        "waiting_is_more": parked.waiting_is_more,
        "replayed": parked.replayed,
        "event": parked.event and event_json(parked.event),
    }
