"""`tenure schedules`: what is planned, what became of it, and the switches."""

from __future__ import annotations

import click

from tenure.cli.schedules.add import add
from tenure.cli.schedules.backfill import backfill
from tenure.cli.schedules.listing import list_schedules, run_now, show
from tenure.cli.schedules.triggers import explain, preview
from tenure.cli.schedules.update import pause, remove, rename, resume, update


@click.group()
def schedules() -> None:
    """List, show, add, change, rename, pause, resume, run and remove schedules."""


for command in (
    list_schedules,
    show,
    run_now,
    add,
    update,
    rename,
    pause,
    resume,
    remove,
    backfill,
    preview,
    explain,
):
    schedules.add_command(command)
