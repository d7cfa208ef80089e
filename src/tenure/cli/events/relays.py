"""`tenure events relays`: how far events are delivered."""

from __future__ import annotations

from datetime import datetime

import click

from tenure.cli.errors import Failed
from tenure.cli.events.groups import sure, unread
from tenure.cli.events.output import relay_json
from tenure.cli.lease_output import state
from tenure.cli.opened import Opened
from tenure.cli.output import Page, print_json, say
from tenure.cli.store import Store, as_json, of_store_and_leases
from tenure.model import RelayStatus
from tenure.node.names import RELAY
from tenure.words import relative


@click.command()
@of_store_and_leases
@as_json
@click.option("--resume", metavar="RELAY", help="Go on, though its sink wanted no more events.")
@click.option("--drop", metavar="RELAY", help="Forget this relay, and how far it has come.")
@click.option("--yes", is_flag=True, help="With --drop: do not ask.")
def relays(store: Store, as_json: bool, resume: str | None, drop: str | None, yes: bool) -> None:
    """Show how far each relay has come, and what is in its way.

    Events that a relay has not delivered are kept for weeks. If it is no longer used, drop it.

    \b
    Examples:
      tenure events relays
      tenure events relays --resume webhook
      tenure events relays --drop kafka
    """
    if resume and drop:
        raise click.UsageError("--resume and --drop: give one of them.")
    if resume:
        _resume(store, resume, as_json=as_json)
    elif drop:
        _drop(store, drop, yes=yes, as_json=as_json)
    else:
        _list(store, as_json=as_json)


def _list(store: Store, *, as_json: bool) -> None:
    async def look(backend: Opened) -> tuple[datetime, list[RelayStatus]]:
        found = await backend.relays.all()
        if not found:
            await backend.tell_namespace()
        return await backend.now(), found

    now, found = store.ask(look)
    if as_json:
        print_json([relay_json(relay) for relay in found])
        return
    Page().table(
        ["RELAY", "SINK", "+TOPICS", "POSITION", "UNREAD", "HELD", "PARKED", "OLDEST", "TROUBLE"],
        (
            [
                relay.name,
                relay.location,
                ", ".join(relay.topics) or None,
                relay.position,
                unread(relay),
                relay.held,
                relay.parked,
                relative(relay.oldest, now) if relay.oldest else None,
                trouble(relay) or None,
            ]
            for relay in found
        ),
        empty="No relays.",
    )


def trouble(relay: RelayStatus) -> str:
    """What is in its way, in a few words."""
    if relay.ended is not None:
        return f"ended: {relay.ended}"
    return relay.trouble or relay.reason


def _resume(store: Store, name: str, *, as_json: bool) -> None:
    async def act(backend: Opened) -> None:
        if not await backend.relays.revive(name):
            known = [relay.name for relay in await backend.relays.all()]
            raise Failed(
                f"relay {name!r} has not ended." if name in known else _unknown(store, name)
            )

    store.ask(act)
    if as_json:
        print_json({"resumed": name})
    else:
        say(f"{name} goes on.")


def _drop(store: Store, name: str, *, yes: bool, as_json: bool) -> None:
    if name not in {relay.name for relay in store.ask(lambda backend: backend.relays.all())}:
        raise Failed(_unknown(store, name))
    if not yes and not sure(f"Forget relay {name!r}, and how far it has come?"):
        raise Failed("not confirmed; nothing was changed. --yes skips the question.")

    async def act(backend: Opened) -> None:
        lease = await backend.leases.read(RELAY + name)
        if lease is not None and state(lease, await backend.lease_now()) == "live":
            raise Failed(
                f"relay {name!r} is running: pid {lease.pid} on {lease.host}. Stop it first, or it"
                " would deliver everything again. Nothing was changed."
            )
        if not await backend.relays.forget(name):
            raise Failed(_unknown(store, name))

    store.ask(act)
    if as_json:
        print_json({"dropped": name})
    else:
        say(f"{name} is forgotten.")


def _unknown(store: Store, name: str) -> str:
    listing = store.address.command("events", "relays")
    return f"there is no relay {name!r}. `{listing}` shows those that exist."
