"""`tenure schedules add`: one schedule from options, or many from a file."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import click

from tenure.cli.code import Code, of_code_and_store, unknown_tasks
from tenure.cli.errors import Failed
from tenure.cli.opened import Opened
from tenure.cli.output import print_json, say, when
from tenure.cli.policies import of_policy, of_target
from tenure.cli.schedules.file import Import, add_file
from tenure.cli.schedules.output import rule, schedule_json
from tenure.cli.schedules.triggers import of_trigger
from tenure.cli.store import Store, as_json
from tenure.errors import ConfigError
from tenure.model import Event, Schedule
from tenure.process.clock import SystemClock
from tenure.schedules.drafts import NewSchedule
from tenure.triggers import Trigger


@click.command()
@click.argument("name", required=False)
@of_trigger
@of_target
@of_policy
@click.option(
    "--file",
    "path",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="Add many: one JSON object per line; - is standard input.",
)
@click.option("--skip-existing", is_flag=True, help="With --file: leave out names that are taken.")
@click.option("--dry-run", is_flag=True, help="Check everything, store nothing.")
@of_code_and_store
@as_json
def add(
    name: str | None,
    trigger: Trigger | None,
    task: str | None,
    kwargs: dict[str, Any] | None,
    emit: Event | None,
    tenant: str | None,
    policy: dict[str, Any],
    path: Path | None,
    skip_existing: bool,
    dry_run: bool,
    code: Code,
    store: Store,
    as_json: bool,
) -> None:
    """Add a schedule, or many from a file.

    The command line does not have your code. Give --app to check that the task exists and takes
    these arguments.

    A line of a FILE has the arguments of `add` in Python, and a trigger as text: {"name": "acme",
    "trigger": "cron 0 7 * * * tz=Europe/Berlin", "task": "invoice", "kwargs": {"customer": 7}}.
    All lines are checked before the first is stored.

    \b
    Examples:
      tenure schedules add sweep --every 5m --task sweep
      tenure schedules add acme --cron "0 7 1 * *" --tz Europe/Berlin \\
        --task invoice --kwargs '{"customer": 7}' --tenant acme \\
        --catch-up all --app shop.jobs:scheduler
      tenure schedules add month-end --cron "0 0 1 * *" \\
        --emit '{"topic": "ledger", "type": "MonthEnded", "data": {"books": 7}}'
      tenure schedules add --file schedules.jsonl --dry-run
    """
    if path is not None:
        if name or trigger or task or kwargs or emit or tenant or policy:
            raise click.UsageError(
                "--file has everything in it: leave out NAME and the options of a schedule."
            )
        add_file(Import(store, code, path, skip_existing, dry_run, as_json))
        return
    if name is None or trigger is None or (task is None and emit is None):
        raise click.UsageError(
            "give a NAME, a trigger (--every, --cron, --at or --rrule), and --task or --emit; or"
            " --file."
        )
    if skip_existing:
        raise click.UsageError("--skip-existing belongs to --file.")
    new = NewSchedule(name, trigger, task=task, kwargs=kwargs, emit=emit, tenant=tenant, **policy)
    try:
        code.drafts.addition(new, SystemClock().now())  # before a store is opened
    except ConfigError as error:
        raise click.UsageError(str(error)) from error

    async def act(opened: Opened) -> tuple[datetime, Schedule | None, set[str], str | None]:
        now = await opened.now()
        change, added = code.drafts.addition(new, now), None
        if await opened.schedules.find([name]):
            update = opened.address.command("schedules", "update", name=name)
            raise Failed(
                f"a schedule named {name!r} exists already. Nothing was changed: `{update}`, with"
                " the same options, changes it."
            )
        if not dry_run:
            (added,) = await opened.editor().land([change])
        tasks = set() if task is None else {task}
        return now, added, *await unknown_tasks(opened, tasks)

    now, added, unknown, warning = store.ask(act)
    if warning:
        say(f"Warning: {warning}", err=True)
    if as_json:
        shown = None if added is None else schedule_json(added)
        print_json({"added": shown, "dry_run": dry_run, "task_declared": not unknown})
    elif added is None:
        say(f"{name} could be added; nothing was stored (--dry-run).")
    else:
        say(f"{name} is added: {rule(added)}; next {when(added.next_due, now)}")
