"""`tenure relay`: a process that delivers events, and does nothing else."""

from __future__ import annotations

import logging
import os
from typing import Any

import click

from tenure.cli.notices import notice, of_log, set_up_logging
from tenure.cli.relay_options import how, relay_of, sinks
from tenure.cli.run import INTERRUPTED
from tenure.cli.store import Store, of_store_and_leases
from tenure.model.version import VERSION
from tenure.scheduler.scheduler import Scheduler

APP = "tenure-relay"
"""Its nodes are no edition of anybody's code."""


@click.command()
@click.option(
    "--to", metavar="URL", help="The sink: kafka://…, redis-streams://…, webhook+https://…"
)
@click.option(
    "--to-file",
    metavar="FILE",
    help="A file that contains the URL of --to, for one with a password or secret.",
)
@how
@of_store_and_leases
@click.option(
    "--health",
    metavar="HOST:PORT",
    help="Answer /healthz, /readyz and /metrics there.",
)
@of_log
def relay(
    to: str | None,
    to_file: str | None,
    store: Store,
    health: str | None,
    log_level: str | None,
    log_format: str | None,
    **given: Any,
) -> None:
    """Deliver events to a sink until SIGTERM or Ctrl+C, then hand over.

    Start it as often as you like: one process delivers, and if it dies another goes on. On
    PostgreSQL a leader has to run, too, on some node: it gives events their positions.

    \b
    Examples:
      tenure relay --to kafka://broker:9092
      tenure relay --to kafka://broker:9092 --topic ledger --name ledger-to-kafka
      tenure relay --to-file /run/secrets/webhook --topic orders --tries 20 --skip
    """
    [url] = sinks([to] if to else [], [to_file] if to_file else [], "to", one=True)
    made = relay_of(url, **given)
    set_up_logging(log_level, log_format)
    scheduler = Scheduler(
        store.url,
        leases=store.leases,
        namespace=store.namespace,
        app=APP,
        concurrency=0,
        leads=False,
        relays=[made],
        health=health,
        migrate=False,
    )
    notice(
        f"tenure {VERSION}: relay {made.name}, pid {os.getpid()}",
        f"  store   {store.address}",
        f"  sink    {made.location}",
        f"  topics  {', '.join(made.topics) or 'all'}",
        f"  stop    Ctrl+C or kill {os.getpid()}: hands over; again: at once",
    )
    try:
        scheduler.run()
    except KeyboardInterrupt:
        notice("Ended at once, without handing over.", level=logging.WARNING)
        raise click.exceptions.Exit(INTERRUPTED) from None
    notice("Stopped; handed over.")
