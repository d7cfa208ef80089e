"""`tenure events groups` and `replay`: how far the readers have come, and sending them back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from tenure.cli.errors import Failed
from tenure.cli.events.output import group_json
from tenure.cli.numbers import POSITION
from tenure.cli.opened import Opened
from tenure.cli.output import Page, print_json, say
from tenure.cli.store import Store, as_json, of_store
from tenure.errors import InvalidTrigger, NotFound
from tenure.model import UNREAD_COUNTED, EventGroup, RelayStatus
from tenure.words import count, relative


@click.command()
@of_store
@as_json
@click.option("--topic", help="Only of this topic.")
@click.option("--drop", metavar="GROUP", help="Forget this group of --topic.")
@click.option("--yes", is_flag=True, help="With --drop: do not ask.")
def groups(store: Store, as_json: bool, topic: str | None, drop: str | None, yes: bool) -> None:
    """Show how far each group of consumers has come.

    Events that a group has not read are kept for weeks. If a group is no longer used, drop it.

    \b
    Examples:
      tenure events groups
      tenure events groups --topic ledger --drop billing
    """
    if drop is not None:
        _drop(store, topic, drop, yes=yes, as_json=as_json)
        return

    async def look(backend: Opened) -> tuple[datetime, list[EventGroup]]:
        found = await backend.events.groups(topic)
        if not found:
            await backend.tell_namespace()
        return await backend.now(), found

    now, found = store.ask(look)
    if as_json:
        print_json([group_json(group) for group in found])
        return
    Page().table(
        ["TOPIC", "GROUP", "POSITION", "UNREAD", "OLDEST", "LAST READ"],
        (
            [
                group.topic,
                group.name,
                group.position,
                unread(group),
                relative(group.oldest, now) if group.oldest else None,
                relative(group.moved_at, now),
            ]
            for group in found
        ),
        empty="No groups.",
    )


@click.command()
@click.argument("topic")
@of_store
@as_json
@click.option("--group", required=True, help="The group that reads them again.")
@click.option("--after", type=POSITION, metavar="POSITION", help="Go on after it.")
@click.option("--since", metavar="TIME", help="Go on with what was stored then or later, in UTC.")
def replay(
    topic: str, store: Store, as_json: bool, group: str, after: int | None, since: str | None
) -> None:
    """Let a group read events again, or leave some out: it goes on from there.

    Its consumers may be running. Events that were deleted because of their age do not come back.

    \b
    Examples:
      tenure events replay ledger --group billing --after 0
      tenure events replay ledger --group billing --since 2026-01-31T07:00
    """
    if (after is None) is (since is None):
        raise click.UsageError("give --after POSITION or --since TIME.")

    from tenure.events import replaying  # `tenure status` needs none of it

    moment = None if since is None else _moment(since)

    async def act(backend: Opened) -> EventGroup:
        to: Any = {"after": after, "since": moment, "at": store.address}
        return await replaying.replay(backend.events, topic, group, **to)

    moved = store.ask(act)
    if as_json:
        print_json(group_json(moved))
    else:
        say(f"{group} goes on after position {moved.position}: {unread(moved)} to read.")


def unread(group: EventGroup | RelayStatus) -> str:
    more = "more than " if group.unread >= UNREAD_COUNTED else ""
    return f"{more}{count(group.unread, 'event')}"


def _drop(store: Store, topic: str | None, group: str, *, yes: bool, as_json: bool) -> None:
    if topic is None:
        raise click.UsageError("--drop needs --topic.")
    if group not in {each.name for each in store.ask(lambda backend: backend.events.groups(topic))}:
        raise _unknown(store, topic, group)
    if not yes and not sure(f"Forget group {group!r} of {topic!r}, and up to where it has read?"):
        raise Failed("not confirmed; nothing was changed. --yes skips the question.")
    if not store.ask(lambda backend: backend.events.drop(topic, group)):
        raise _unknown(store, topic, group)
    if as_json:
        print_json({"dropped": group, "topic": topic})
    else:
        say(f"{group} is forgotten.")


def sure(question: str) -> bool:
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        return False


def _unknown(store: Store, topic: str, group: str) -> NotFound:
    from tenure.events.replaying import no_group

    return no_group(topic, group, store.address)


def _moment(text: str) -> datetime:
    from tenure.triggers import moments  # `tenure status` needs none of it

    try:
        moment = moments.read("--since", text)
    except InvalidTrigger as error:
        raise click.UsageError(str(error)) from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
