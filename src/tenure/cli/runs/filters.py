"""Which runs a command means: options that `runs list`, `runs cancel` and `runs retry` share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from tenure.cli.errors import Failed
from tenure.cli.opened import Opened
from tenure.cli.prune import Age
from tenure.model import RunRecord


@dataclass(frozen=True, slots=True)
class Filter:
    """What was given; None where nothing was."""

    schedule: str | None
    task: str | None
    tenant: str | None
    older_than: float | None

    def __bool__(self) -> bool:
        return any(x is not None for x in (self.schedule, self.task, self.tenant, self.older_than))

    async def find(self, backend: Opened, state: str | None, limit: int) -> list[RunRecord]:
        return await backend.runs.find(
            schedule=self.schedule,
            state=state,
            task=self.task,
            tenant=self.tenant,
            older_than=self.older_than or 0.0,
            limit=limit,
        )

    async def check(self, backend: Opened) -> None:
        """Nothing was found. A name that was mistyped must not look like a schedule that never
        ran; one that was removed still has its runs."""
        await backend.tell_namespace()
        await backend.tell_unknown(self.task, self.tenant)
        name = self.schedule
        if name is None or await backend.schedules.find([name]):
            return
        if not await backend.runs.find(schedule=name, limit=1):
            listing = backend.address.command("schedules", "list")
            raise Failed(
                f"there is no schedule {name!r}, and no run of it. `{listing}` shows those that"
                " exist."
            )


def of_runs(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a filter, as one argument `chosen`."""

    @functools.wraps(command)
    def wrapper(
        *args: Any,
        schedule: str | None,
        task: str | None,
        tenant: str | None,
        older_than: float | None,
        **kwargs: Any,
    ) -> Any:
        return command(*args, chosen=Filter(schedule, task, tenant, older_than), **kwargs)

    for option in (
        click.option(
            "--older-than",
            type=Age(),
            metavar="TIME",
            help="Only those made longer ago than this: 30d, 12h, 90m.",
        ),
        click.option("--tenant", metavar="NAME", help="Only this tenant's."),
        click.option("--task", metavar="NAME", help="Only of this task."),
        click.option("--schedule", metavar="NAME", help="Only this schedule's."),
    ):
        wrapper = option(wrapper)
    return wrapper
