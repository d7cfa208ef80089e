"""Tenure's own views as models, to be read. Django migrates nothing here."""

from __future__ import annotations

from typing import ClassVar

from django.db import connections, models

from tenure.contrib.django import conf
from tenure.model import RunState

_STATES = ("active", "paused", "ended", "orphaned", "set aside")


def _view(name: str) -> str:
    """Its name, which depends on the database; without the quotes that Django sets around it."""
    on_postgres = conf.alias() in connections and connections[conf.alias()].vendor == "postgresql"
    return f'tenure"."{name}' if on_postgres else f"tenure_{name}"


class Schedule(models.Model):
    """A row of the view schedule_status."""

    uid = models.BigIntegerField(primary_key=True)
    namespace = models.TextField()
    name = models.TextField()
    tenant = models.TextField(null=True)
    app = models.TextField(null=True)
    task = models.TextField()
    trigger = models.TextField()
    kwargs = models.TextField()
    topic = models.TextField(null=True)
    state = models.TextField(choices=[(state, state) for state in _STATES])
    reason = models.TextField(null=True)
    next_due = models.DateTimeField(null=True)
    last_nominal = models.DateTimeField(null=True)
    last_state = models.TextField(null=True)
    last_reason = models.TextField(null=True)
    last_run_id = models.BigIntegerField(null=True)
    last_run_state = models.TextField(null=True)
    last_finished_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        managed = False
        db_table = _view("schedule_status")
        default_permissions = ("view", "change")
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return str(self.name)


class Run(models.Model):
    """A row of the view run_history."""

    id = models.BigIntegerField(primary_key=True)
    namespace = models.TextField()
    schedule = models.TextField(null=True)
    tenant = models.TextField(null=True)
    task = models.TextField()
    kwargs = models.TextField()
    kind = models.TextField()
    nominal = models.DateTimeField()
    state = models.TextField(choices=[(state.value, state.value) for state in RunState])
    due = models.DateTimeField()
    attempt = models.IntegerField()
    failures = models.IntegerField()
    crashes = models.IntegerField()
    node = models.TextField(null=True)
    created_at = models.DateTimeField()
    claimed_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    seconds = models.FloatField(null=True)
    error = models.TextField(null=True)
    result = models.TextField(null=True)

    class Meta:
        managed = False
        db_table = _view("run_history")
        default_permissions = ("view",)
        ordering: ClassVar = ["-id"]

    def __str__(self) -> str:
        return f"run {self.id} of {self.schedule or self.task}"
