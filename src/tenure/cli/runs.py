"""`tenure runs`: what was executed, where, and how it ended."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from tenure.cli.errors import Failed
from tenure.cli.numbers import COUNT, ID
from tenure.cli.output import Page, exactly, in_seconds, iso, print_json, short, span, when
from tenure.cli.planned import loaded
from tenure.cli.store import Opened, Store, as_json, of_store
from tenure.model import RunRecord, RunState


@click.group()
def runs() -> None:
    """List runs and show one, with its error."""


@runs.command("list")
@of_store
@as_json
@click.option("--schedule", metavar="NAME", help="Only of this schedule.")
@click.option(
    "--state", type=click.Choice([state.value for state in RunState]), help="Only in this state."
)
@click.option("--limit", default=50, show_default=True, type=COUNT, help="How many.")
def list_runs(
    store: Store, as_json: bool, schedule: str | None, state: str | None, limit: int
) -> None:
    """List runs, newest first.

    \b
    Examples:
      tenure runs list --state failed
      tenure runs list --schedule digest --limit 5 --json
    """

    async def look(backend: Opened) -> tuple[datetime, list[RunRecord]]:
        found = await backend.runs.all(schedule, state, limit)
        if not found and schedule is not None:
            # A name that was mistyped must not look like a schedule that never ran. One that was
            # removed still has its runs.
            known = await backend.schedules.find([schedule])
            if not known and not await backend.runs.all(schedule, None, 1):
                raise Failed(
                    f"there is no schedule {schedule!r}, nor any run of it."
                    f" `{store.address.command('schedules', 'list')}` shows those that exist."
                )
        return await backend.schedules.now(), found

    now, found = store.ask(look)
    if as_json:
        print_json([run_json(run) for run in found])
        return
    Page().table(
        ["RUN", "SCHEDULE", "STATE", "NOMINAL", "TOOK", "+ATTEMPT", "NODE", "+ERROR"],
        (
            [
                run.id,
                run.schedule,
                run.state,
                when(run.nominal, now),
                _took(run),
                run.attempt,
                short(run.node),
                summary(run.error),
            ]
            for run in found
        ),
        empty="No runs.",
    )


@runs.command()
@click.argument("run_id", metavar="RUN", type=ID)
@of_store
@as_json
def show(run_id: int, store: Store, as_json: bool) -> None:
    """Show one run with its whole error. Exit code 1 if there is no such run.

    \b
    Example:
      tenure runs show 1042
    """

    async def look(backend: Opened) -> tuple[datetime, RunRecord | None]:
        return await backend.schedules.now(), await backend.runs.get(run_id)

    now, run = store.ask(look)
    if run is None:
        raise Failed(
            f"there is no run {run_id}. `{store.address.command('runs', 'list')}` shows the latest;"
            " finished ones are deleted when they are older than the retention time."
        )
    if as_json:
        print_json(run_json(run))
        return
    page = Page()
    page.facts(run_facts(run, now))
    if run.error:
        page.line()
        page.text(run.error.rstrip())


def run_json(run: RunRecord) -> dict[str, Any]:
    return {
        "id": run.id,
        "schedule": run.schedule,
        "task": run.task,
        "kind": run.kind,
        "state": run.state,
        "nominal": iso(run.nominal),
        "due": iso(run.due),
        "created_at": iso(run.created_at),
        "claimed_at": iso(run.claimed_at),
        "finished_at": iso(run.finished_at),
        "attempt": run.attempt,
        "crashes": run.crashes,
        "retries": run.retries,
        "node": run.node,
        "term": run.term,
        "lock": run.lock,
        "priority": run.priority,
        "timeout": run.timeout,
        "on_crash": run.on_crash,
        "kwargs": loaded(run.kwargs),
        "error": run.error,
    }


def run_facts(run: RunRecord, now: datetime) -> list[tuple[str, object]]:
    late = (run.claimed_at - run.due).total_seconds() if run.claimed_at else None
    return [
        ("Run", run.id),
        ("Schedule", run.schedule),
        ("Task", run.task if run.task != run.schedule else None),
        ("Kind", run.kind),
        ("State", run.state),
        ("Nominal", exactly(run.nominal, now)),
        ("Due", exactly(run.due, now) if run.due != run.nominal else None),
        ("Claimed", exactly(run.claimed_at, now) if run.claimed_at else None),
        ("Late by", span(late) if late is not None and late >= 0 else None),
        ("Finished", exactly(run.finished_at, now) if run.finished_at else None),
        ("Took", _took(run)),
        ("Attempt", f"{run.attempt} of {run.retries + 1}" if run.retries else run.attempt),
        ("Crashes", run.crashes or None),
        ("Node", run.node),
        ("Fired under", f"term {run.term}" if run.term else None),
        ("Lock key", run.lock),
        ("Timeout", in_seconds(run.timeout)),
        ("Arguments", run.kwargs if run.kwargs != "{}" else None),
    ]


def summary(error: str | None) -> str | None:
    """The last line of a traceback says what it was."""
    lines = [line for line in (error or "").strip().splitlines() if line.strip()]
    if not lines:
        return None
    last = lines[-1].strip()
    return last if len(last) <= 80 else last[:79] + "…"


def _took(run: RunRecord) -> str | None:
    if run.claimed_at is None or run.finished_at is None:
        return None
    return span(max(0.0, (run.finished_at - run.claimed_at).total_seconds()))
