"""Events: who has read them, and what could not be delivered."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from tenure.model import UNREAD_COUNTED, EventGroup, LoggedEvent, ParkedEvent, RelayStatus
from tenure.web.reading import Reader, Store
from tenure.web.rendering import page

SHOWN = 50


@dataclass(frozen=True, slots=True)
class Look:
    now: datetime
    groups: list[EventGroup]
    relays: list[RelayStatus]
    parked: list[ParkedEvent]
    events: list[LoggedEvent]


def routes(reader: Reader) -> list[BaseRoute]:
    async def show(request: Request) -> Response:
        topic = request.query_params.get("topic", "")[:200] or None
        given = request.query_params.get("below", "")
        below = int(given) if given.isdecimal() and len(given) < 19 else None

        async def ask(store: Store) -> Look:
            return Look(
                await store.now(),
                await store.events.groups(),
                await store.relays.all(),
                await store.relays.parked(limit=SHOWN),
                await store.events.find(topic=topic, limit=SHOWN, below=below),
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
