"""`tenure runs`: what was executed, where, and how it ended."""

from __future__ import annotations

import click

from tenure.cli.runs.attempts import log
from tenure.cli.runs.control import cancel, retry
from tenure.cli.runs.listing import list_runs, show


@click.group()
def runs() -> None:
    """List runs, show one with its attempts, read its log, cancel them and run them again.

    \b
    Examples:
      tenure runs list --state failed     what went wrong
      tenure runs show 1042               one run, its attempts, its whole error
      tenure runs log 1042 --follow       what it logs, until it ends
      tenure runs cancel --task report    what that would cancel; --yes does it
      tenure runs retry 1042              run it again
    """


for command in (list_runs, show, log, cancel, retry):
    runs.add_command(command)
