"""`tenure enqueue`: a task, run once without a schedule."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from tenure.cli.code import Code, of_code_and_store, unknown_tasks
from tenure.cli.errors import of_usage
from tenure.cli.opened import Opened
from tenure.cli.output import print_json, say, when
from tenure.cli.policies import of_arguments, of_run_policy
from tenure.cli.runs.output import run_json
from tenure.cli.store import Store, as_json
from tenure.model import RunRecord
from tenure.triggers import moments, zones
from tenure.triggers.text import seconds


@click.command()
@click.argument("task")
@of_arguments
@click.option("--at", metavar="TIME", help="Not before this time: 2026-12-31T18:00.")
@click.option("--tz", metavar="ZONE", help="The time zone of --at, such as Europe/Berlin.  [UTC]")
@click.option("--delay", metavar="SPAN", help="Not before this long from now: 30s, 5m, 1h30m.")
@click.option("--key", help="The same key gives the same run, so it is safe to repeat.")
@of_run_policy
@of_code_and_store
@as_json
def enqueue(
    task: str,
    kwargs: dict[str, Any] | None,
    tenant: str | None,
    at: str | None,
    tz: str | None,
    delay: str | None,
    key: str | None,
    policy: dict[str, Any],
    code: Code,
    store: Store,
    as_json: bool,
) -> None:
    """Run a task once, without a schedule: now, at a time, or after a delay.

    The command line does not have your code. Give --app to check that the task exists and takes
    these arguments, and to have the policies with which it is declared.

    \b
    Examples:
      tenure enqueue send-invoice --kwargs '{"order": 1042}' --key order-1042
      tenure enqueue rebuild --at 2026-12-31T18:00 --tz Europe/Berlin
      tenure enqueue report --delay 1h30m --app shop.jobs:scheduler --json
    """
    if tz is not None and at is None:
        raise click.UsageError("--tz belongs to --at: give a time with it.")
    new = of_usage(
        lambda: code.drafts.run(
            task,
            kwargs=kwargs,
            at=None if at is None else moments.resolve(moments.read("at", at), zones.zone(tz)),
            delay=None if delay is None else seconds("delay", delay),
            key=key,
            tenant=tenant,
            **policy,
        )
    )

    async def act(opened: Opened) -> tuple[datetime, RunRecord, bool, set[str], str | None]:
        run, is_new = await opened.runs.enqueue(new)
        return await opened.now(), run, is_new, *await unknown_tasks(opened, {task})

    now, run, is_new, unknown, warning = store.ask(act)
    if warning and is_new:
        say(f"Warning: {warning}", err=True)
    if as_json:
        print_json({**run_json(run), "new": is_new, "task_declared": not unknown})
    elif is_new:
        command = store.address.command("runs", "show", name=str(run.id))
        say(f"Run {run.id} of {run.task} waits; due {when(run.due, now)}: `{command}`")
    else:
        say(f"Run {run.id} has that key already; it is {run.state}, nothing was added.")
