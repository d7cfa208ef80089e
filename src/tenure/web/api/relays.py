"""Relays: how far events are delivered, what is parked, and sending that again."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated

from msgspec import Meta

from tenure.model import UNREAD_COUNTED, ParkedEvent, RelayStatus
from tenure.node.names import RELAY
from tenure.tasks.arguments import ID_MOST
from tenure.web.api.access import Opened
from tenure.web.api.events import EventAnswer
from tenure.web.api.events import answer as event_answer
from tenure.web.api.leases import state_of
from tenure.web.api.problems import conflict, missing
from tenure.web.api.table import Call, Operation, Reply
from tenure.web.api.values import Answer, Asked, Limit, Moment, Wanted, iso, iso_or_none

MOST = 10_000
"""So many parked events are looked at in one call."""


class RelayAnswer(Answer):
    """How far a relay has come, and what is in its way."""

    relay: str
    sink: str
    topics: list[str]
    position: int
    unread: int
    unread_is_more: bool
    held: int
    parked: int
    oldest_undelivered: Moment | None
    last_error: str | None
    trouble: str | None
    ended: str | None
    moved_at: Moment


class Relays(Answer):
    """By name."""

    items: list[RelayAnswer]


class ParkedAnswer(Answer):
    """An event that could not be delivered. `holds`: later ones of its key wait for it, so many as
    `waiting` says (none: not counted); `waiting_is_more`: the count ended there."""

    relay: str
    position: int
    topic: str | None
    key: str | None
    tries: int
    reason: str
    parked_at: Moment
    holds: bool
    waiting: int | None
    waiting_is_more: bool
    replayed: bool
    event: EventAnswer | None


class ParkedEvents(Answer):
    """By relay and position. `more`: there are others, which are not shown."""

    items: list[ParkedAnswer]
    more: bool


class ListParked(Asked):
    """Of which relay."""

    relay: Wanted | None = None
    limit: Limit = 50


Positions = Annotated[
    list[Annotated[int, Meta(ge=1, le=ID_MOST)]], Meta(min_length=1, max_length=1_000)
]


class ReplayParked(Asked):
    """Which of them; without positions, all of this relay."""

    positions: Positions | None = None


class DropParked(Asked):
    """Which of them: each is named."""

    positions: Positions


class Replayed(Answer):
    """How many are to be sent again."""

    relay: str
    replayed: int


class Dropped(Answer):
    """How many are given up."""

    relay: str
    dropped: int


def relay_answer(relay: RelayStatus) -> RelayAnswer:
    return RelayAnswer(
        relay=relay.name,
        sink=relay.location,
        topics=list(relay.topics),
        position=relay.position,
        unread=relay.unread,
        unread_is_more=relay.unread >= UNREAD_COUNTED,
        held=relay.held,
        parked=relay.parked,
        oldest_undelivered=iso_or_none(relay.oldest),
        last_error=relay.reason or None,
        trouble=relay.trouble or None,
        ended=relay.ended,
        moved_at=iso(relay.moved_at),
    )


def _parked(parked: ParkedEvent) -> ParkedAnswer:
    return ParkedAnswer(
        relay=parked.relay,
        position=parked.position,
        topic=parked.topic,
        key=parked.key,
        tries=parked.tries,
        reason=parked.reason,
        parked_at=iso(parked.parked_at),
        holds=parked.holds,
        waiting=parked.waiting,
        waiting_is_more=parked.waiting_is_more,
        replayed=parked.replayed,
        event=None if parked.event is None else event_answer(parked.event),
    )


async def list_relays(opened: Opened, call: Call) -> Relays:
    return Relays(items=[relay_answer(relay) for relay in await opened.stores.relays.all()])


async def list_parked(opened: Opened, call: Call) -> ParkedEvents:
    asked: ListParked = call.query
    found = await opened.stores.relays.parked(asked.relay, asked.limit + 1)
    items = [_parked(each) for each in found[: asked.limit]]
    return ParkedEvents(items=items, more=len(found) > asked.limit)


async def replay_parked(opened: Opened, call: Call) -> Replayed:
    body: ReplayParked = call.body
    name = await _relay(opened, call)
    if body.positions is not None:
        await _check_parked(opened, name, body.positions)
    done = await opened.stores.relays.replay(name, body.positions)
    return Replayed(relay=name, replayed=done)


async def drop_parked(opened: Opened, call: Call) -> Dropped:
    body: DropParked = call.body
    name = await _relay(opened, call)
    await _check_parked(opened, name, body.positions)
    return Dropped(relay=name, dropped=await opened.stores.relays.drop(name, body.positions))


async def resume_relay(opened: Opened, call: Call) -> RelayAnswer:
    name = await _relay(opened, call)
    if not await opened.stores.relays.revive(name):
        raise conflict(f"relay {name!r} has not ended.")
    found = await opened.stores.relays.all()
    return next(relay_answer(relay) for relay in found if relay.name == name)


async def forget_relay(opened: Opened, call: Call) -> Reply:
    name = await _relay(opened, call)
    lease = await opened.stores.leases.read(RELAY + name)
    if lease is not None and state_of(lease, await opened.lease_now()) == "live":
        raise conflict(
            f"relay {name!r} is running: stop it first, or it would deliver everything again."
            " Nothing was changed."
        )
    if not await opened.stores.relays.forget(name):
        raise missing(f"there is no relay {name!r}.")
    return Reply(None)


async def _relay(opened: Opened, call: Call) -> str:
    name = call.path["relay"]
    if name not in {relay.name for relay in await opened.stores.relays.all()}:
        raise missing(f"there is no relay {name!r}.")
    return name


async def _check_parked(opened: Opened, name: str, positions: Sequence[int]) -> None:
    found = await opened.stores.relays.parked(name, MOST, positions=positions)
    parked = {each.position for each in found}
    if unknown := [each for each in positions if each not in parked]:
        raise conflict(f"no event is parked at position {unknown[0]}. Nothing was changed.")


_REFUSED = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)


OPERATIONS = (
    Operation(
        "GET",
        "/relays",
        "listRelays",
        "List how far each relay has delivered.",
        list_relays,
        Relays,
    ),
    Operation(
        "GET",
        "/parked",
        "listParked",
        "List the events that a relay could not deliver, and that wait for you.",
        list_parked,
        ParkedEvents,
        query=ListParked,
    ),
    Operation(
        "POST",
        "/relays/{relay}/replay",
        "replayParked",
        "Send parked events again, with all their tries.",
        replay_parked,
        Replayed,
        body=ReplayParked,
        body_optional=True,
        problems=_REFUSED,
    ),
    Operation(
        "POST",
        "/relays/{relay}/drop",
        "dropParked",
        "Give parked events up: their keys go on without them.",
        drop_parked,
        Dropped,
        body=DropParked,
        problems=_REFUSED,
    ),
    Operation(
        "POST",
        "/relays/{relay}/resume",
        "resumeRelay",
        "Let a relay go on whose sink wanted no more events.",
        resume_relay,
        RelayAnswer,
        problems=_REFUSED,
    ),
    Operation(
        "DELETE",
        "/relays/{relay}",
        "forgetRelay",
        "Forget a relay that is not running, and how far it has come.",
        forget_relay,
        None,
        (HTTPStatus.NO_CONTENT,),
        problems=_REFUSED,
    ),
)
