"""Schedules and runs in Django's admin: to be read; and to pause, resume and run now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.db import connections

from tenure.contrib.django import conf
from tenure.contrib.django.models import Run, Schedule
from tenure.contrib.django.project import made
from tenure.errors import TenureError
from tenure.triggers import load


class ReadOnly(admin.ModelAdmin):
    """What the views have, of the project's own namespace."""

    show_full_result_count = False

    def get_queryset(self, request: Any) -> Any:
        rows = super().get_queryset(request).using(conf.alias())
        return rows.filter(namespace=made().namespace)

    def has_add_permission(self, request: Any) -> bool:
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        return False


class ScheduleAdmin(ReadOnly):
    """Schedules. Users who may change them may pause, resume and run them."""

    list_display = ("name", "when", "task", "state", "next_due", "last_nominal", "last_run_state")
    list_filter = ("state",)
    search_fields = ("name", "task", "tenant")
    actions = ("pause", "resume", "run_now")

    def has_operate_permission(self, request: Any) -> bool:
        return bool(request.user.has_perm("tenure.change_schedule"))

    @admin.display(description="trigger")
    def when(self, row: Schedule) -> str:
        try:
            return str(load(row.trigger))
        except TenureError:  # of newer code, or edited by hand
            return str(row.trigger)

    @admin.action(description="Pause", permissions=["operate"])
    def pause(self, request: Any, chosen: Any) -> None:
        reason = f"in the admin, by {request.user.get_username()}"
        self._each(request, chosen, "paused", lambda name, **of: made().pause(name, reason, **of))

    @admin.action(description="Resume", permissions=["operate"])
    def resume(self, request: Any, chosen: Any) -> None:
        self._each(request, chosen, "resumed", made().resume)

    @admin.action(description="Run now", permissions=["operate"])
    def run_now(self, request: Any, chosen: Any) -> None:
        self._each(request, chosen, "run now", made().run_now)

    def _each(self, request: Any, chosen: Any, what: str, act: Callable[..., Any]) -> None:
        # With ATOMIC_REQUESTS, a second connection would wait for the request's own transaction.
        joined = connections[conf.alias()].in_atomic_block
        of = {"using": conf.alias()} if joined else {}
        done = []
        for row in chosen:
            try:
                skipped = act(row.name, **of) is None
            except TenureError as error:
                self.message_user(request, str(error), messages.ERROR)
                continue
            if skipped:
                text = f"{row.name} was not run: an earlier run is unfinished."
                self.message_user(request, text, messages.WARNING)
            else:
                self.log_change(request, row, what)
                done.append(row.name)
        if done:
            self.message_user(request, f"{what}: {', '.join(done)}", messages.SUCCESS)


class RunAdmin(ReadOnly):
    """Runs, the newest first."""

    list_display = ("id", "schedule", "task", "nominal", "state", "attempt", "seconds", "node")
    list_display_links = ("id", "schedule")
    list_filter = ("state",)
    search_fields = ("schedule", "task")


if "URL" not in conf.given():  # else the views are where Django has no connection
    admin.site.register(Schedule, ScheduleAdmin)
    admin.site.register(Run, RunAdmin)
