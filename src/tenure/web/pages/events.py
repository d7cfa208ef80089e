"""Events: who has read them, and what could not be delivered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from tenure.model import UNREAD_COUNTED, EventGroup, LoggedEvent, ParkedEvent, RelayStatus
from tenure.web.reading import Reader, Store
from tenure.web.rendering import page

SHOWN = 50
COUNTED = 500
"""Among so many of the newest events of a topic those are counted that wait behind a parked one."""
TOPICS = 5


@dataclass(frozen=True, slots=True)
class Look:
    now: datetime
    groups: list[EventGroup]
    relays: list[RelayStatus]
    parked: list[ParkedEvent]
    events: list[LoggedEvent]
    behind: dict[tuple[str, int], Behind]
    """By relay and position of what is parked: what waits for it."""


@dataclass(frozen=True, slots=True)
class Behind:
    """How many events wait behind a parked one."""

    number: int
    whole: bool
    """False: only the newest events were looked at, so there may be more."""


async def waiting(store: Store, parked: Sequence[ParkedEvent]) -> dict[tuple[str, int], Behind]:
    """What waits behind each that holds up its key, as far as the newest events of a few topics
    tell."""
    holds = [each for each in parked if each.holds and each.topic is not None]
    topics = list(dict.fromkeys(each.topic for each in holds))[:TOPICS]
    newest = {topic: await store.events.find(topic=topic, limit=COUNTED) for topic in topics}
    return {
        (each.relay, each.position): behind(each, newest[each.topic])
        for each in holds
        if each.topic in newest
    }


def behind(parked: ParkedEvent, newest: Sequence[LoggedEvent]) -> Behind:
    """Among the newest events of its topic, those of its key that came later."""
    later = [each for each in newest if not each.position or each.position > parked.position]
    number = sum(parked.key is None or each.key == parked.key for each in later)
    return Behind(number, len(later) < len(newest) or len(newest) < COUNTED)


def routes(reader: Reader) -> list[BaseRoute]:
    async def show(request: Request) -> Response:
        topic = request.query_params.get("topic", "")[:200] or None
        given = request.query_params.get("below", "")
        below = int(given) if given.isdecimal() and len(given) < 19 else None

        async def ask(store: Store) -> Look:
            parked = await store.relays.parked(limit=SHOWN)
            return Look(
                await store.now(),
                await store.events.groups(),
                await store.relays.all(),
                parked,
                await store.events.find(topic=topic, limit=SHOWN, below=below),
                await waiting(store, parked),
            )

        look = await reader.ask(ask)
        return page(
            request,
            "events.html",
            topics="" if below else "beat",
            now=look.now,
            look=look,
            topic=topic,
            counted=UNREAD_COUNTED,
            last=look.events[-1].position if len(look.events) == SHOWN else None,
        )

    return [Route("/events", show)]
