"""`tenure migrate`: the tables, created and brought up to date."""

from __future__ import annotations

import asyncio

import click

from tenure.backends.base import Upkeep
from tenure.cli.errors import Failed
from tenure.cli.output import print_json, say
from tenure.cli.store import Store, as_json, of_store
from tenure.model import Pending


@click.command()
@of_store
@as_json
@click.option("--sql", is_flag=True, help="Print the pending SQL; change nothing.")
@click.option("--check", is_flag=True, help="Exit code 1 if something is pending; change nothing.")
def migrate(store: Store, as_json: bool, sql: bool, check: bool) -> None:
    """Create the tables, or bring them up to date.

    A scheduler does this by itself at its start, unless it has migrate=False. Migrations only add
    to what is there, so that older nodes live on beside newer ones during a rollout.

    \b
    Examples:
      tenure migrate --url sqlite:////var/lib/app/tenure.db
      tenure migrate --check && echo "up to date"
      tenure migrate --sql > tenure.sql        for somebody else to apply
    """
    if sql and check:
        raise click.UsageError("--sql and --check do not go together.")
    backend = store.make()
    if not isinstance(backend, Upkeep):
        raise Failed(f"{backend.location}: this backend does not tell what is pending.")
    pending: Pending = asyncio.run(backend.pending())
    if sql:
        click.echo(pending.sql or "-- nothing is pending")
        return
    if pending.names and not check:
        _apply(store)
    if as_json:
        done = [] if check else list(pending.names)
        left = list(pending.names) if check else []
        print_json({"store": backend.location, "pending": left, "applied": done})
    elif not pending.names:
        say(f"{backend.location} is up to date.")
    elif check:
        say(f"{backend.location} lacks: {', '.join(pending.names)}", err=True)
    else:
        say(f"{backend.location}: applied {', '.join(pending.names)}")
    if check and pending.names:
        raise click.exceptions.Exit(1)


def _apply(store: Store) -> None:
    async def nothing(_: object) -> None:
        """Opening it is all there is to do."""

    store.ask(nothing, migrate=True)
