"""`tenure events list`, `show` and `tail`."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime

import click

from tenure.cli.errors import Failed
from tenure.cli.events.output import event_json
from tenure.cli.numbers import COUNT, POSITION
from tenure.cli.opened import Opened
from tenure.cli.output import Page, exactly, print_json, say, when
from tenure.cli.store import ANSWER_WITHIN, Store, as_json, of_store
from tenure.model import LoggedEvent
from tenure.process.clock import SystemClock

LOOK_EVERY = 0.5
PORTION = 500
SHOWN = 60
"""How many characters of an event's data a line shows."""


@click.command("list")
@of_store
@as_json
@click.option("--topic", help="Only of this topic.")
@click.option("--type", "kind", help="Only of this type.")
@click.option("--key", help="Only with this key.")
@click.option("--limit", default=50, show_default=True, type=COUNT, help="How many.")
def list_events(
    store: Store, as_json: bool, topic: str | None, kind: str | None, key: str | None, limit: int
) -> None:
    """List events, newest first. Those without a position are not readable yet.

    \b
    Examples:
      tenure events list --topic ledger
      tenure events list --type MonthEnded --limit 5 --json
    """

    async def look(backend: Opened) -> tuple[datetime, list[LoggedEvent]]:
        found = await backend.events.find(topic=topic, type=kind, key=key, limit=limit)
        if not found:
            await backend.tell_namespace()
        return await backend.now(), found

    now, found = store.ask(look)
    if as_json:
        print_json([event_json(event) for event in found])
        return
    Page().table(
        ["POSITION", "TOPIC", "TYPE", "+KEY", "TIME", "+FROM", "DATA", "+ID"],
        (
            [
                event.position or "waits",
                event.topic,
                event.type,
                event.key,
                when(event.time, now),
                event.subject,
                _brief(event.data),
                event.id,
            ]
            for event in found
        ),
        empty="No events.",
    )


@click.command()
@click.argument("event_id", metavar="ID")
@of_store
@as_json
def show(event_id: str, store: Store, as_json: bool) -> None:
    """Show one event with all of its data. Exit code 1 if there is no such event.

    \b
    Example:
      tenure events show 17/planned/1767225600000000
    """

    async def look(backend: Opened) -> tuple[datetime, list[LoggedEvent]]:
        return await backend.now(), await backend.events.find([event_id])

    now, found = store.ask(look)
    if not found:
        raise Failed(
            f"there is no event {event_id!r}. `{store.address.command('events', 'list')}` shows the"
            " latest; old ones are deleted once they are read."
        )
    [event] = found
    if as_json:
        print_json(event_json(event))
        return
    page = Page()
    page.facts(
        [
            ("Event", event.id),
            ("Topic", event.topic),
            ("Type", event.type),
            ("Time", exactly(event.time, now)),
            ("Key", event.key),
            ("Number", f"{event.key_number} of its key" if event.key_number else None),
            ("Position", event.position or "none yet: the leader gives it, and then it is read"),
            ("From", event.subject),
            ("Source", event.source),
            *((f"Header {name}", value) for name, value in event.headers.items()),
            ("Stored", exactly(event.recorded_at, now)),
            ("Data", event.data),
        ]
    )


@click.command()
@click.argument("topic")
@of_store
@as_json
@click.option("--after", type=POSITION, metavar="POSITION", help="Begin after it.  [default: now]")
def tail(topic: str, store: Store, as_json: bool, after: int | None) -> None:
    """Print the events of a topic as they come, until Ctrl+C. It belongs to no group.

    \b
    Examples:
      tenure events tail ledger
      tenure events tail ledger --after 0 --json
    """

    from tenure.events.replaying import newest  # `tenure status` needs none of it

    async def follow(backend: Opened) -> None:
        position, clock = after, SystemClock()
        if position is None:
            position = await newest(backend.events, topic)
        while True:
            async with asyncio.timeout(ANSWER_WITHIN):
                found = await backend.events.read(topic, position, PORTION)
            for event in found:
                _line(event, as_json=as_json)
                position = event.position
            if len(found) < PORTION:
                await clock.sleep(LOOK_EVERY)

    with suppress(KeyboardInterrupt):
        store.ask(follow, within=None)


def _line(event: LoggedEvent, *, as_json: bool) -> None:
    if as_json:
        print_json(event_json(event))
        return
    key = f" [{event.key}]" if event.key is not None else ""
    time = event.time.isoformat(timespec="milliseconds")
    say(f"{event.position} {time} {event.type}{key} {event.data}")


def _brief(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
