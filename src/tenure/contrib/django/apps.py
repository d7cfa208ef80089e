"""The app: it finds the tasks of all apps, and creates the tables after `migrate`. Starts nothing:
`migrate`, `test` and `shell` come by here, too."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules


class TenureConfig(AppConfig):
    """`"tenure.contrib.django"` in `INSTALLED_APPS`."""

    name = "tenure.contrib.django"
    label = "tenure"
    verbose_name = "Tenure"

    def ready(self) -> None:
        # Here, not above: the models of all apps are there only now.
        from tenure.contrib.django import task_objects
        from tenure.contrib.django.project import made

        scheduler = made()  # what is wrong in the settings is told by every command
        autodiscover_modules("tasks")
        task_objects.declare_all(scheduler.tasks)
        post_migrate.connect(_create_tables, sender=self)


def _create_tables(using: str, **_: Any) -> None:
    from tenure.contrib.django.project import made

    made().create_tables(using)
