"""`tenure run`: a node, in the foreground, from a scheduler in a module."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

import click

from tenure.backends.registry import parse
from tenure.backends.urls import shown
from tenure.cli.application import load
from tenure.cli.dashboard import beside_node
from tenure.cli.errors import GIVEN, Failed
from tenure.cli.notices import notice, of_log, set_up_logging
from tenure.cli.numbers import Whole
from tenure.cli.relay_options import relay_of, sinks
from tenure.cli.reload import run_again_and_again
from tenure.cli.store import both, chosen_for_code
from tenure.model.version import VERSION
from tenure.process.clock import SystemClock
from tenure.scheduler.async_scheduler import AsyncScheduler
from tenure.scheduler.role import check_role
from tenure.scheduler.runtime import enabled
from tenure.scheduler.scheduler import Scheduler
from tenure.settings import Settings

INTERRUPTED = 130


@click.command()
@click.argument("target", metavar="MODULE:ATTR")
@both(
    "url",
    "The store, for a scheduler whose code names none; the same as setting $TENURE_URL. Not"
    " for a password: every user of the machine can read the arguments of a process.",
)
@click.option(
    "--concurrency",
    type=Whole(min=0),
    help="How many runs this process executes at a time; 0: it only schedules.",
)
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME",
    help="Execute only tasks of this queue. May be given several times.  [default: all]",
)
@click.option("--no-lead", is_flag=True, help="Execute, and leave scheduling to other processes.")
@click.option(
    "--relay",
    "relays",
    multiple=True,
    metavar="URL",
    help="Deliver all events to this sink, too, beside the relays that the code names. May be"
    " given several times.",
)
@click.option(
    "--relay-file",
    "relay_files",
    multiple=True,
    metavar="FILE",
    help="A file that contains the URL of --relay, for one with a password or secret.",
)
@click.option(
    "--health",
    metavar="HOST:PORT",
    help="Answer /healthz, /readyz, /leader and /metrics there.",
)
@click.option(
    "--dashboard",
    metavar="HOST:PORT",
    help="Also serve the dashboard there. It only shows, and asks for $TENURE_DASHBOARD_TOKEN if"
    " that is set. The command `dashboard` has more options.",
)
@of_log
@click.option("--reload", is_flag=True, help="For development: start again when code changes.")
def run(
    target: str,
    log_level: str | None,
    log_format: str | None,
    concurrency: int | None,
    queues: tuple[str, ...],
    no_lead: bool,
    relays: tuple[str, ...],
    relay_files: tuple[str, ...],
    health: str | None,
    dashboard: str | None,
    reload: bool,
    **given: Any,
) -> None:
    """Run the scheduler ATTR of MODULE until SIGTERM or Ctrl+C, then hand over.

    The module is imported with the working folder on its path. Start it as often as you like, on
    the same store: one process leads, all execute, and if one dies the others continue.

    \b
    Examples:
      tenure run app:scheduler
      tenure run shop.jobs:scheduler --url sqlite:////var/lib/shop/tenure.db
      tenure run app:scheduler --url-file /run/secrets/tenure-url
      tenure run app:scheduler --queue mail --concurrency 4 --no-lead
      tenure run app:scheduler --relay kafka://broker:9092
      tenure run app:scheduler --health 0.0.0.0:9400
      tenure run app:scheduler --dashboard 127.0.0.1:8642
      tenure run app:scheduler --reload
      TENURE_URL=sqlite:///jobs.db tenure run app:scheduler --log-level debug
    """
    if reload:
        context = click.get_current_context()
        again = run_again_and_again(context.meta[GIVEN], Path.cwd(), context.obj)
        raise click.exceptions.Exit(again)
    url = chosen_for_code(given)
    scheduler = load(target, whole_traceback=log_level == "debug")
    if url and scheduler.url != url:
        raise Failed(
            f"--url is {shown(url)}, but the code of {target} names {shown(scheduler.url)}, or has"
            " other settings. Take the URL out of the code (then --url and $TENURE_URL"
            " decide), or leave out --url."
        )
    more = [relay_of(sink) for sink in sinks(relays, relay_files, "relay")]
    scheduler.configure(
        concurrency=concurrency,
        queues=queues or None,
        leads=False if no_lead else None,
        relays=[*scheduler.relays, *more],
        health=health,
    )
    check_role(scheduler.settings, scheduler.tasks, scheduler.relays)
    set_up_logging(log_level, log_format)
    if not enabled():
        notice("TENURE_ENABLED is off: nothing was started.")
        return
    _announce(target, scheduler)
    try:
        with beside_node(scheduler, dashboard):
            if isinstance(scheduler, AsyncScheduler):
                asyncio.run(scheduler.run())
            else:
                scheduler.run()
    except (KeyboardInterrupt, SystemExit) as error:
        if isinstance(error, SystemExit) and error.code != INTERRUPTED:
            raise
        notice("Ended at once, without handing over.", level=logging.WARNING)
        raise click.exceptions.Exit(INTERRUPTED) from None
    notice("Stopped; handed over.")


def _announce(target: str, scheduler: Scheduler | AsyncScheduler) -> None:
    store = parse(scheduler.url, "default", SystemClock())().location
    scheduled = sum(task.trigger is not None for task in scheduler.tasks)
    stop = f"Ctrl+C or kill {os.getpid()}: hands over, lets running tasks end; again: at once"
    lines = [
        f"tenure {VERSION}: {target}, pid {os.getpid()}",
        f"  store   {store}",
        f"  tasks   {len(scheduler.tasks)}, of which {scheduled} on a schedule",
        *(f"  relay   {relay.name}: {relay.location}" for relay in scheduler.relays),
    ]
    if does := _role(scheduler.settings):
        lines.append(f"  role    {does}")
    notice(*lines, f"  stop    {stop}")


def _role(settings: Settings) -> str:
    """What this process does, if that is not everything."""
    if not settings.concurrency:
        return "schedules, and executes nothing" if settings.leads else "only delivers events"
    does = f"executes queue {', '.join(settings.queues)}" if settings.queues else ""
    return does if settings.leads else f"{does or 'executes'}, does not lead"
