"""`tenure import`: schedules from elsewhere, as lines for `tenure schedules add --file`.

A file for each source. Each makes a list of `Found`, and `delivery.py` does the rest alike for all.
"""

from __future__ import annotations

from importlib import import_module

import click

# Each source is the command of that name in the module of that name, imported when it is used.
SOURCES = {
    "apscheduler": "The jobs of an APScheduler 3 scheduler and its job stores.",
    "crontab": "The lines of a crontab.",
    "kubernetes": "CronJob manifests, as JSON or YAML.",
    "redbeat": "The entries that RedBeat keeps in Redis.",
    "django-celery-beat": "The periodic tasks of django-celery-beat.",
}


class Sources(click.Group):
    """A group whose commands are imported by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SOURCES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SOURCES:
            return None
        name = cmd_name.replace("-", "_")
        command = getattr(import_module(f"tenure.cli.imports.{name}"), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(SOURCES.items()))


@click.group(cls=Sources)
def imports() -> None:
    """Bring schedules from APScheduler, a crontab, Kubernetes or Celery beat's extensions.

    The source is only read. What could be read is written as JSON lines, for you to look at; what
    could not is named, with the reason. Then add them: tenure schedules add --file.
    """
