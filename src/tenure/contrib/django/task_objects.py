"""Tasks of `django.tasks`, or of the package django-tasks: a run of one enqueues it.

Its backend, queue and priority stay what they are, and so do its workers. What Tenure adds is when.
Neither package is imported here: a project that has such a task has imported it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.apps import apps

from tenure.tasks.registry import Tasks

_functions: dict[Any, Callable[..., Any]] = {}
"""The function that enqueues it, for each task: one is known by its function."""


def is_task_object(given: object) -> bool:
    kinds = [(kind.__module__, kind.__name__) for kind in type(given).__mro__]
    return ("django.tasks.base", "Task") in kinds or ("django_tasks.base", "Task") in kinds


def as_function(given: Any) -> Any:
    """What Tenure executes. All that is not a task of Django is left as it is."""
    if not is_task_object(given):
        return given
    if given not in _functions:
        _functions[given] = _enqueuing(given)
    return _functions[given]


def _enqueuing(task: Any) -> Callable[..., str]:
    @wraps(task.func)
    def enqueue(**kwargs: Any) -> str:
        return str(task.enqueue(**kwargs).id)

    del enqueue.__wrapped__  # this is no coroutine function, even if that is
    whole = inspect.signature(task.func)
    parameters = list(whole.parameters.values())[1 if task.takes_context else 0 :]
    vars(enqueue)["__signature__"] = whole.replace(parameters=parameters)
    return enqueue


def declare_all(tasks: Tasks) -> None:
    """Those in a `tasks.py` that nobody has declared, by their whole names, such as
    `shop.tasks.send`: then every node knows them."""
    declared = {task.function for task in tasks}
    for app in apps.get_app_configs():
        name = f"{app.name}.tasks"
        for found in list(vars(sys.modules[name]).values()) if name in sys.modules else ():
            if is_task_object(found) and found.func.__module__ == name:
                function = as_function(found)
                if function not in declared:
                    declared.add(function)
                    tasks.declare(function, name=found.module_path)
