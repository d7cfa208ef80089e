"""Tenure as an app of a Django project.

    INSTALLED_APPS = [..., "tenure.contrib.django"]

The project has one scheduler, `TENURE` says how it works, and `DATABASES` where. It is made when it
is first asked for; nothing here starts it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tenure.contrib.django.connections import fresh_connections

if TYPE_CHECKING:
    from tenure.contrib.django.project import ProjectScheduler, schedule, start_with_runserver, task

    scheduler: ProjectScheduler

__all__ = ["fresh_connections", "schedule", "scheduler", "start_with_runserver", "task"]


def __getattr__(name: str) -> Any:
    # Later: Django imports this package before its settings can be read.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tenure.contrib.django import project

    return project.made() if name == "scheduler" else getattr(project, name)
