"""`tenure run`: a node, in the foreground, from a scheduler in a module."""

from __future__ import annotations

import asyncio
import logging
import os
from importlib.metadata import version
from typing import Any

import click

from tenure.async_scheduler import AsyncScheduler
from tenure.cli.errors import Failed
from tenure.cli.loading import load
from tenure.cli.output import say
from tenure.cli.store import both, chosen_for_code
from tenure.clock import SystemClock
from tenure.core import enabled
from tenure.scheduler import Scheduler
from tenure.stores import parse
from tenure.urls import shown

INTERRUPTED = 130
LEVELS = ["debug", "info", "warning", "error", "critical"]
_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


@click.command()
@click.argument("target", metavar="MODULE:ATTR")
@both(
    "url",
    "The store, for a scheduler whose code names none; as setting $TENURE_URL. Not for a password:"
    " every user of the machine can read the arguments of a process.",
)
@click.option(
    "--log-level",
    type=click.Choice(LEVELS, case_sensitive=False),
    help="How much is logged.  [default: info, or what the module sets up]",
)
def run(target: str, log_level: str | None, **given: Any) -> None:
    """Run the scheduler ATTR of MODULE until SIGTERM or Ctrl+C, then hand over politely.

    The module is imported with the working folder on its path. Start it as often as you like, on
    the same store: one process leads, all execute, and if one dies the others go on.

    \b
    Examples:
      tenure run app:scheduler
      tenure run shop.jobs:scheduler --url sqlite:////var/lib/shop/tenure.db
      tenure run app:scheduler --url-file /run/secrets/tenure-url
      TENURE_URL=sqlite:///jobs.db tenure run app:scheduler --log-level debug
    """
    url = chosen_for_code(given)
    scheduler = load(target, whole_traceback=log_level == "debug")
    if url and scheduler.url != url:
        raise Failed(
            f"--url is {shown(url)}, but the code of {target} names {shown(scheduler.url)} itself,"
            " or with other settings. Take the URL out of the code (then --url and $TENURE_URL"
            " decide), or leave out --url."
        )
    _set_up_logging(log_level)
    if not enabled():
        click.echo("TENURE_ENABLED is off: nothing was started.", err=True)
        return
    _announce(target, scheduler)
    try:
        if isinstance(scheduler, AsyncScheduler):
            asyncio.run(scheduler.run())
        else:
            scheduler.run()
    except KeyboardInterrupt:
        click.echo("Ended at once, without handing over.", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    click.echo("Stopped; handed over.", err=True)


def _set_up_logging(level: str | None) -> None:
    """To stderr, unless the module has set up logging of its own: then that is left alone."""
    if not logging.getLogger().handlers:
        logging.basicConfig(format=_FORMAT, level=(level or "info").upper())
    elif level is not None:
        logging.getLogger("tenure").setLevel(level.upper())


def _announce(target: str, scheduler: Scheduler | AsyncScheduler) -> None:
    store = parse(scheduler.url, "default", SystemClock())().location
    scheduled = sum(task.trigger is not None for task in scheduler.tasks)
    stop = f"Ctrl+C or kill {os.getpid()}: hands over, lets running tasks end; again: at once"
    say(f"tenure {version('tenure')}: {target}, pid {os.getpid()}", err=True)
    say(f"  store   {store}", err=True)
    say(f"  tasks   {len(scheduler.tasks)}, of which {scheduled} on a schedule", err=True)
    say(f"  stop    {stop}", err=True)
