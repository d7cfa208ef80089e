"""`tenure migrate`: the tables, created and brought up to date."""

from __future__ import annotations

import asyncio

import click

from tenure.backends.base import KnowsRoles, Upkeep
from tenure.cli.errors import Failed
from tenure.cli.output import print_json, say
from tenure.cli.store import Store, as_json, of_store_or_leases
from tenure.errors import ConfigError
from tenure.model import Pending


@click.command()
@of_store_or_leases
@as_json
@click.option("--sql", is_flag=True, help="Print the pending SQL; change nothing.")
@click.option("--check", is_flag=True, help="Exit code 1 if something is pending; change nothing.")
@click.option(
    "--roles",
    is_flag=True,
    help="Print commands that create roles with only the rights they need; change nothing.",
)
@click.option(
    "--prefix",
    default="tenure_",
    show_default=True,
    help="With --roles: the prefix of the role names.",
)
def migrate(store: Store, as_json: bool, sql: bool, check: bool, roles: bool, prefix: str) -> None:
    """Create the tables, or bring them up to date.

    A scheduler does this by itself when it starts, unless it has migrate=False. Migrations only
    add, so that older nodes keep working beside newer ones during a rollout.

    \b
    Examples:
      tenure migrate --url sqlite:////var/lib/app/tenure.db
      tenure migrate --check && echo "up to date"
      tenure migrate --sql > tenure.sql    for someone else to apply
      tenure migrate --roles | psql app    roles: reader, editor, node, migrator
      tenure migrate --roles --url redis://cache | redis-cli -h cache
    """
    if sum((sql, check, roles)) > 1:
        raise click.UsageError("--sql, --check and --roles cannot be combined.")
    if roles:
        _print_roles(store, prefix)
        return
    backend = store.whole()
    if not isinstance(backend, Upkeep):
        raise Failed(f"{backend.location}: this backend cannot say what is pending.")
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


def _print_roles(store: Store, prefix: str) -> None:
    """Commands on stdout, to be piped to whatever runs them; advice on stderr. Asks no server."""
    backend = next(made for made in store.backends() if made is not None)
    if not isinstance(backend, KnowsRoles):
        raise Failed(f"{backend.location}: this backend has no roles.")
    try:
        script = backend.role_script(prefix)
    except ConfigError as error:
        raise click.UsageError(str(error)) from error
    click.echo(script.commands)
    say(script.advice, err=True)


def _apply(store: Store) -> None:
    async def nothing(_: object) -> None:
        """Opening it is all there is to do."""

    store.ask(nothing, migrate=True)
