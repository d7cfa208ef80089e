"""Where the process of an isolated task finds that task: MODULE:ATTR, as for `tenure run`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tenure.errors import ConfigError
from tenure.tasks.registry import Tasks

if TYPE_CHECKING:
    from tenure.tasks.task import Task


def homes(tasks: Tasks) -> dict[str, str]:
    """For each isolated task. `tasks` are those of a scheduler, which is looked for in all modules;
    a `Tasks` that the scheduler includes will do, too, if nothing is around its tasks."""
    isolated = [task for task in tasks if task.options.isolate]
    if not isolated:
        return {}
    registries = sorted(_registries(), key=lambda found: found[0].startswith("__main__:"))
    found = {task.name: _home(task, tasks, registries) for task in isolated}
    missing = [name for name, home in found.items() if home is None]
    if missing:
        raise ConfigError(
            f"task {missing[0]!r} has isolate=True, and its process could not find it: no module"
            " has this scheduler as an attribute. Make the scheduler at the top of a module, such"
            " as scheduler = Scheduler(…)"
            + (
                ": it has functions around its tasks, which are needed there, too."
                if tasks.wrappers
                else ", or declare the task with a Tasks() at the top of a module, and include()"
                " that."
            )
        )
    return {name: home for name, home in found.items() if home is not None}


def _home(task: Task, tasks: Tasks, registries: list[tuple[str, Tasks]]) -> str | None:
    for home, registry in registries:
        if registry is tasks:
            return home
    for home, registry in registries:
        same = task.name in registry and registry[task.name].function is task.function
        if same and not tasks.wrappers:
            return home
    return None


def _registries() -> Iterator[tuple[str, Tasks]]:
    """All that modules have, of schedulers and of `Tasks`."""
    from tenure.scheduler.base import BaseScheduler

    for name, module in list(sys.modules.items()):
        if name == "__mp_main__":  # another name of the main module
            continue
        for attribute, value in list(_attributes(module).items()):
            # By its type: an attribute may be a proxy that fails at every touch.
            if issubclass(type(value), Tasks):
                yield f"{name}:{attribute}", value
            elif issubclass(type(value), BaseScheduler):
                yield value._home or f"{name}:{attribute}", value.tasks


def _attributes(module: object) -> dict[str, Any]:
    found = getattr(module, "__dict__", None)  # what is in sys.modules need not be a module
    return found if isinstance(found, dict) else {}
