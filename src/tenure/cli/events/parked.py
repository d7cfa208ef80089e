"""`tenure events parked`: what could not be delivered, and what is to become of it."""

from __future__ import annotations

from datetime import datetime
from itertools import groupby

import click

from tenure.cli.errors import Failed
from tenure.cli.events.groups import sure
from tenure.cli.events.output import parked_json
from tenure.cli.numbers import ID
from tenure.cli.opened import Opened
from tenure.cli.output import Page, print_json, say
from tenure.cli.store import Store, as_json, of_store
from tenure.model import ParkedEvent
from tenure.words import count, relative

MOST = 10_000
"""So many are looked at in one call."""


@click.command()
@of_store
@as_json
@click.option("--relay", metavar="NAME", help="Only of this relay.")
@click.option(
    "--position",
    "positions",
    type=ID,
    multiple=True,
    help="Only the event at this position; may be given several times.",
)
@click.option("--replay", is_flag=True, help="Send these again, with all their tries.")
@click.option("--drop", is_flag=True, help="Give these up: their keys go on without them.")
@click.option("--dry-run", is_flag=True, help="With --replay or --drop: only show which.")
@click.option("--yes", is_flag=True, help="With --drop: do not ask.")
def parked(
    store: Store,
    as_json: bool,
    relay: str | None,
    positions: tuple[int, ...],
    replay: bool,
    drop: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Show the events that a relay could not deliver, and that wait for you.

    An event that holds its key keeps all later ones of that key waiting, and is shown with their
    number. The others were passed over: sent again, they arrive after later ones.

    \b
    Examples:
      tenure events parked
      tenure events parked --relay kafka --replay
      tenure events parked --relay kafka --position 1042 --drop
    """
    if replay and drop:
        raise click.UsageError("--replay and --drop: give one of them.")
    if dry_run and not (replay or drop):
        raise click.UsageError("--dry-run goes with --replay or --drop.")

    async def look(backend: Opened) -> tuple[datetime, list[ParkedEvent]]:
        found = await backend.relays.parked(relay, MOST, positions=positions or None)
        if not found:
            await backend.tell_namespace()
        return await backend.now(), found

    now, found = store.ask(look)
    missing = set(positions) - {each.position for each in found}
    if missing:
        listing = store.address.command("events", "parked")
        raise Failed(
            f"no event is parked at position {min(missing)}. `{listing}` shows those that are."
            " Nothing was changed."
        )
    if drop and found and not dry_run and not yes:
        _print(found, now, err=True)
        if not sure(f"Give up {count(len(found), 'event')}? The sink will never get them."):
            raise Failed("not confirmed; nothing was changed. --yes skips the question.")
    done = 0
    if (replay or drop) and not dry_run:
        done = store.ask(lambda backend: _act(backend, found, drop=drop))
    if as_json:
        events = [parked_json(each) for each in found]
        print_json({"events": events, "changed": done} if replay or drop else events)
    elif not (replay or drop) or dry_run:
        _print(found, now)
    else:
        what = "given up" if drop else "to be sent again"
        say(f"{count(done, 'event')} {what}.")


async def _act(backend: Opened, chosen: list[ParkedEvent], *, drop: bool) -> int:
    """Exactly those that were shown."""
    act = backend.relays.drop if drop else backend.relays.replay
    done = 0
    for name, events in groupby(chosen, lambda each: each.relay):
        done += await act(name, [each.position for each in events])
    return done


def _print(found: list[ParkedEvent], now: datetime, *, err: bool = False) -> None:
    page = Page()
    if err:
        page.console.stderr = True
    page.table(
        ["RELAY", "POSITION", "TOPIC", "KEY", "+TYPE", "ID", "TRIES", "PARKED", "HOLDS", "REASON"],
        (
            [
                each.relay,
                each.position,
                each.topic,
                each.key,
                each.event and each.event.type,
                each.event.id if each.event else "deleted",
                each.tries,
                relative(each.parked_at, now),
                _holds(each),
                each.reason,
            ]
            for each in found
        ),
        empty="Nothing is parked.",
    )


def _holds(parked: ParkedEvent) -> str:
    if not parked.holds:
        return "to be sent" if parked.replayed else "nothing"
    if parked.waiting is None:
        return "its key"
    more = "+" if parked.waiting_is_more else ""
    return f"its key, {parked.waiting:,}{more} behind"
