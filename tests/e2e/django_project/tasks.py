"""Found by the app, as the `tasks.py` of any app is."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tenure import cron, every
from tenure.contrib.django import schedule, task
from tests.e2e.django_project import TASKS

django_task = import_module(TASKS).task
executed: list[str] = []


@schedule(cron("0 3 * * *"))
def nightly() -> None:
    executed.append("nightly")


@task(retries=2)
def greet(name: str) -> None:
    executed.append(f"greet {name}")


@task
def plain() -> None: ...


@django_task(priority=5)
def send(to: str) -> None:
    executed.append(f"send {to}")


@schedule(every(hours=1), kwargs={"to": "all"})
@django_task(takes_context=True)
def hourly(context: Any, to: str) -> None:
    executed.append(f"hourly {to} by {type(context).__name__}")
