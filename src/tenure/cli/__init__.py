"""The `tenure` command. One file or package per noun, imported when its command is used.

The top: nothing imports it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from tenure.cli.errors import GIVEN, told_plainly
from tenure.cli.option_order import behind_the_command

# Each command is the object of that name in the module of that name. The line beside it is here,
# so that the list of commands can be shown without importing them.
COMMANDS = {
    "run": "Run the scheduler of a module until it is told to stop.",
    "demo": "See it work: three nodes on SQLite, the leader killed before your eyes.",
    "status": "Who leads, which nodes live, what is due and waiting.",
    "schedules": "List, show, add, change, rename, pause, resume, run and remove schedules.",
    "import": "Bring schedules from APScheduler, Celery, a crontab or Kubernetes.",
    "enqueue": "Run a task once, without a schedule.",
    "runs": "List, show, cancel and retry runs.",
    "events": "List and follow events; see who has read them; what could not be delivered.",
    "relay": "Deliver events to Kafka, Redis Streams or a webhook.",
    "leases": "Who holds which lease and lock; their history; evict, clear.",
    "audit": "Who changed what, by dashboard, HTTP API or command line.",
    "dashboard": "Pages for people on call, and the HTTP API.",
    "prune": "Delete old runs, occurrences, events, lease history and unused leases, now.",
    "doctor": "Check the store and the cluster, and say what to do.",
    "migrate": "Create the tables, or bring them up to date.",
    "backup": "Copy a SQLite store to a file, while everything runs.",
    "copy": "Move everything to another store: SQLite to PostgreSQL, and back.",
}

_NAMES = {"import": "imports"}  # no module can be named like a keyword


class Commands(click.Group):
    """A group whose commands are imported by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = _NAMES.get(cmd_name, cmd_name)
        command = getattr(import_module(f"tenure.cli.{name}"), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def make_context(
        self, info_name: str | None, args: list[str], *rest: Any, **extra: Any
    ) -> click.Context:
        given = list(args)
        args = behind_the_command(given)
        with told_plainly(given):
            context = super().make_context(info_name, args, *rest, **extra)
        context.meta[GIVEN] = given
        return context

    def invoke(self, ctx: click.Context) -> object:
        with told_plainly(ctx.meta[GIVEN]):
            return super().invoke(ctx)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tenure", message="tenure %(version)s")
def main() -> None:
    """A distributed scheduler: many processes, one leader, every occurrence fires once.

    \b
    Examples:
      tenure run app:scheduler               start a node, as many as you like
      tenure status                          who leads, and is all well?
      tenure schedules show digest           when will it run; why did it not?
      tenure doctor --url sqlite:///jobs.db  what is wrong, and what to do

    The store is --url, before or after the command, else $TENURE_URL, else
    sqlite:///tenure.db in this folder. A URL with a
    password belongs in a file (--url-file, $TENURE_URL_FILE) or the variable, not in a
    command: every user of the machine can read the arguments of a process.
    Exit codes: 0 done; 1 the answer is no, or the command failed; 2 wrong usage.
    """
