"""`tenure import apscheduler`: each job becomes a schedule that runs its function as a task."""

from __future__ import annotations

from collections.abc import Sequence

import click

from tenure.cli.application import load_any
from tenure.cli.errors import Failed
from tenure.cli.imports.candidates import Found
from tenure.cli.imports.delivery import Delivery, of_delivery


@click.command()
@click.argument("target", metavar="MODULE:ATTR")
@of_delivery
def apscheduler(target: str, delivery: Delivery) -> None:
    """Make schedules of the jobs of an APScheduler 3 scheduler that is not started.

    Its job stores are read without starting them, so they stay as they are. The next hundred times
    of each trigger are compared before anything is written. --stub declares the functions as tasks.

    Rows of a job store are unpickled, as APScheduler does, also with --dry-run: this runs whatever
    code was stored there. Use it only on a job store that you trust.

    \b
    Examples:
      tenure import apscheduler app:jobs --dry-run
      tenure import apscheduler app:jobs \\
        --write schedules.jsonl --stub job_tasks.py
    """
    try:
        from tenure.contrib.apscheduler.move import carried
    except ImportError as error:
        raise Failed(f"APScheduler cannot be imported here: {error}.") from error
    found = carried(load_any(target))
    functions = {one.entry["task"]: str(one.func) for one in found if one.entry is not None}
    for one in found:
        other = functions.get(one.entry["task"]) if one.entry is not None else None
        if other is not None and other != one.func:
            raise Failed(
                f"two functions would be tasks of the same name: {other} and {one.func}. Declare"
                " them with names of their own, and use carry_over() in Python."
            )

    def stub(kept: Sequence[Found]) -> str:
        used = sorted({one.entry["task"] for one in kept if one.entry is not None})
        return _stub({name: functions[name] for name in used})

    delivery.deliver([Found(one.id, one.entry, one.reason, one.notes) for one in found], stub)


def _stub(functions: dict[str, str]) -> str:
    imports, tasks = set[str](), list[str]()
    for name, function in functions.items():
        module, _, path = function.partition(":")
        imports.add(f"from {module} import {path.partition('.')[0]}")
        tasks.append(f"tasks.task(name={name!r})({path})")
    parts = ['"""The functions of the jobs, as tasks."""', "", "from tenure import Tasks"]
    return "\n".join([*parts, *sorted(imports), "", "tasks = Tasks()", *tasks, ""])
