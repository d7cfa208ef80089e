"""`tenure import crontab`: each line becomes a schedule that runs its command in a shell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from tenure.cli.errors import Failed
from tenure.cli.imports.candidates import FOR_REVIEW, Found
from tenure.cli.imports.delivery import Delivery, of_delivery
from tenure.errors import InvalidTrigger
from tenure.triggers import cron, zones

TASK = "shell"
_VARIABLE = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*(.*?)\s*")
_STUB = '''\
"""What the lines of the crontab run."""

import subprocess

from tenure import Tasks

tasks = Tasks()


@tasks.task
def shell(command: str) -> None:
    """A command as cron ran it. It fails if the command does."""
    subprocess.run(["/bin/sh", "-c", command], check=True)
'''


@click.command()
@click.argument("path", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
@click.option("--tz", metavar="ZONE", help="The time zone of the machine that has the crontab.")
@click.option("--system", is_flag=True, help="A user's name follows the times, as in /etc/crontab.")
@of_delivery
def crontab(path: str, tz: str | None, system: bool, delivery: Delivery) -> None:
    """Make schedules of the lines of a crontab, paused for review.

    Each runs the task `shell` with its command; --stub writes that task. They are paused, so that
    nothing runs twice: remove the line from the crontab, then resume its schedule.

    \b
    Examples:
      crontab -l > mine
      tenure import crontab mine --tz Europe/Berlin --dry-run
      tenure import crontab mine --tz Europe/Berlin \\
        --write schedules.jsonl --stub shell_tasks.py
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"{path} cannot be read: {error}.") from error
    try:
        zone = zones.name(tz)
    except InvalidTrigger as error:
        raise click.UsageError(f"--tz: {error}") from error
    delivery.deliver(list(_entries(text, zone, system)), _stub)


def _stub(found: Sequence[Found]) -> str:
    return _STUB


def _entries(text: str, zone: str | None, system: bool) -> Iterator[Found]:
    variables: dict[str, str] = {}
    for number, whole in enumerate(text.splitlines(), 1):
        line, source = whole.strip(), f"line {number}"
        if not line or line.startswith("#"):
            continue
        if (found := _VARIABLE.fullmatch(line)) is not None:
            name, value = found[1], found[2].strip("\"'")
            if name == "CRON_TZ":
                zone = value
            else:
                variables[name] = value
            continue
        yield _entry(line, source, number, zone, variables, system)


def _entry(
    line: str, source: str, number: int, zone: str | None, variables: dict[str, str], system: bool
) -> Found:
    parts = line.split(maxsplit=(1 if line.startswith("@") else 5) + system)
    fields = 1 if line.startswith("@") else 5
    if len(parts) < fields + system + 1:
        return Found(source, reason=f"it is not a line of a crontab: {line[:100]}")
    expression, command = " ".join(parts[:fields]), parts[-1]
    if "%" in command.replace("\\%", ""):
        return Found(source, reason="its % gives the command an input, which a task has not")
    if zone is None:
        return Found(source, reason="its time zone is not known: give --tz, or CRON_TZ in the file")
    try:
        trigger = cron(expression, tz=zone)
    except InvalidTrigger as error:
        return Found(source, reason=str(error))
    notes = [f"{name} was {value!r} in the crontab" for name, value in variables.items()]
    if system:
        notes.append(f"it ran as the user {parts[fields]!r}; a task runs as its node does")
    entry = {
        "name": f"{_slug(command)}-{number}",
        "trigger": trigger,
        "task": TASK,
        "kwargs": {"command": command.replace("\\%", "%")},
        "catch_up": "none",
        "overlap": "allow",
        "paused": FOR_REVIEW,
    }
    return Found(source, entry, notes=tuple(notes))


def _slug(command: str) -> str:
    """A word for the command: the program's own name."""
    words = [word for word in command.split() if "=" not in word]
    name = re.sub(r"[^\w.-]+", "-", words[0].rsplit("/", 1)[-1] if words else "")
    return name.strip("-")[:100] or "command"
