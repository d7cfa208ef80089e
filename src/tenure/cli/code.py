"""The code behind a store, for commands that can do more if they have it: `--app MODULE:ATTR`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click
from click.core import ParameterSource

from tenure.cli.application import load
from tenure.cli.opened import Opened
from tenure.cli.store import (
    Store,
    chosen,
    chosen_for_code,
    leases_option,
    namespace_option,
    url_option,
)
from tenure.node.names import PRESENCE
from tenure.schedules.drafts import Drafts
from tenure.words import count


@dataclass(frozen=True, slots=True)
class Code:
    """What the command knows of the tasks: everything, or only what it is told."""

    drafts: Drafts
    known: bool


def of_code_and_store(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --app, --url, --leases and --namespace, as `code` and `store`.

    With --app, and no --url, the store is that of its scheduler.
    """

    @url_option
    @leases_option
    @namespace_option
    @click.option(
        "--app",
        metavar="MODULE:ATTR",
        help="The scheduler whose code has the tasks: names and arguments are then checked.",
    )
    @functools.wraps(command)
    def wrapper(*args: Any, app: str | None, namespace: str, **kwargs: Any) -> Any:
        url = chosen("url", kwargs) if app is None else chosen_for_code(kwargs)
        leases = chosen("leases", kwargs)
        if app is None:
            code = Code(Drafts(), known=False)
        else:
            scheduler = load(app)
            drafts = Drafts(scheduler.tasks, scheduler.settings, scheduler.tz)
            code = Code(drafts, known=True)
            url = url or scheduler.url
            source = click.get_current_context().get_parameter_source("namespace")
            if source is ParameterSource.DEFAULT:
                namespace = scheduler.namespace
        return command(*args, code=code, store=Store.parse(url, namespace, leases), **kwargs)

    return wrapper


async def unknown_tasks(opened: Opened, tasks: set[str]) -> tuple[set[str], str | None]:
    """Those of these that no live node executes, as far as nodes tell; and a warning about it."""
    live = [record.info for record in await opened.leases.all(PRESENCE) if record.live]
    if not live:
        hint = await opened.leases_unknown()
        return tasks, hint or (
            "No node is running: runs will wait until one starts that executes the task."
        )
    told = [info.get("task_names") for info in live]
    lists = [names for names in told if isinstance(names, list) and names]
    if len(lists) < sum(info.get("tasks") != 0 for info in live):
        return set(), None  # older code, too many names, or the record was edited
    missing = tasks - {str(name) for names in lists for name in names}
    if not missing:
        return missing, None
    named = ", ".join(repr(name) for name in sorted(missing)[:5])
    more = f" and {len(missing) - 5:,} more" if len(missing) > 5 else ""
    nodes = "The node that runs" if len(live) == 1 else f"None of the {count(len(live), 'node')}"
    verb = "does not execute" if len(live) == 1 else "executes"
    limited = any(info.get("queues") for info in live)
    why = " (not declared there, or in a queue that it does not take from)" if limited else ""
    return missing, (
        f"{nodes} {verb} {'tasks' if len(missing) > 1 else 'task'} {named}{more}{why}: runs will"
        " wait until one does."
    )
