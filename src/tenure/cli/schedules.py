"""`tenure schedules`: what is planned, what became of it, and the switches."""

from __future__ import annotations

import secrets
from datetime import datetime

import click

from tenure.address import Address
from tenure.cli.adding import add
from tenure.cli.backfill import backfill
from tenure.cli.errors import Failed
from tenure.cli.numbers import COUNT, SECONDS, SOME
from tenure.cli.output import Page, exactly, in_seconds, iso, print_json, say, when
from tenure.cli.planned import occurrence_json, outcome, rule, schedule_json, state, upcoming
from tenure.cli.runs import run_facts, run_json, summary
from tenure.cli.store import Opened, Store, as_json, of_store, of_store_and_leases
from tenure.cli.triggers import explain, preview
from tenure.cli.updating import catalog, pause, remove, resume, update
from tenure.cli.waiting import FINISHED, wait_for
from tenure.errors import NotFound
from tenure.model import Occurrence, RunRecord, RunState, Schedule
from tenure.presence import PRESENCE


@click.group()
def schedules() -> None:
    """List, show, add, change, pause, resume, run and remove schedules."""


for command in (add, update, pause, resume, remove, backfill, preview, explain):
    schedules.add_command(command)


@schedules.command("list")
@of_store
@as_json
@click.option("--tenant", help="Only of this tenant.")
@click.option("--limit", default=1_000, show_default=True, type=COUNT, help="How many.")
def list_schedules(store: Store, as_json: bool, tenant: str | None, limit: int) -> None:
    """List schedules by name.

    \b
    Examples:
      tenure schedules list
      tenure schedules list --json | jq -r '.[] | select(.active | not) | .name'
    """

    async def look(backend: Opened) -> tuple[datetime, list[Schedule]]:
        return await backend.schedules.now(), await backend.schedules.all(tenant, limit)

    now, found = store.ask(look)
    if as_json:
        print_json([schedule_json(schedule) for schedule in found])
        return
    page = Page()
    page.table(
        ["NAME", "STATE", "TRIGGER", "NEXT", "+TASK", "+TENANT", "+WHY NOT ACTIVE"],
        (
            [
                schedule.name,
                state(schedule),
                rule(schedule),
                when(schedule.next_due, now) if schedule.active else None,
                schedule.spec.task if schedule.spec.task != schedule.name else None,
                schedule.spec.tenant,
                schedule.reason,
            ]
            for schedule in found
        ),
        empty="No schedules.",
    )
    if len(found) == limit:
        page.line(f"The first {limit:,}; --limit shows more.", style="dim")


@schedules.command()
@click.argument("name")
@of_store
@as_json
@click.option("--occurrences", default=10, show_default=True, type=SOME, help="How many past.")
@click.option("--next", "ahead", default=5, show_default=True, type=SOME, help="How many ahead.")
def show(name: str, store: Store, as_json: bool, occurrences: int, ahead: int) -> None:
    """Show a schedule: its rule and policies, its next times, and what became of the last ones.

    Every past time is there with its outcome: fired, skipped or missed, and the reason.

    \b
    Examples:
      tenure schedules show digest
      tenure schedules show digest --occurrences 100 --json
    """

    async def look(
        backend: Opened,
    ) -> tuple[datetime, Schedule, list[tuple[Occurrence, RunRecord | None]]]:
        schedule = await catalog(backend).get(name)
        past = await backend.schedules.occurrences(name, occurrences) if occurrences else []
        runs = [None if o.run_id is None else await backend.runs.get(o.run_id) for o in past]
        return await backend.schedules.now(), schedule, list(zip(past, runs, strict=True))

    now, schedule, past = store.ask(look)
    times = upcoming(schedule, ahead)
    if as_json:
        print_json(
            schedule_json(schedule)
            | {"next_times": [iso(t) for t in times]}
            | {"occurrences": [occurrence_json(occurrence, run) for occurrence, run in past]}
        )
        return
    page, spec = Page(), schedule.spec
    page.facts(
        [
            ("Schedule", schedule.name),
            ("State", state(schedule)),
            ("Why", schedule.reason),
            ("Trigger", rule(schedule)),
            ("Task", spec.task),
            ("Arguments", spec.kwargs if spec.kwargs != "{}" else None),
            ("Tenant", spec.tenant),
            ("Declared by", f"the code of app {spec.app!r}" if spec.app else "run time (added)"),
            ("Policies", f"catch_up={spec.catch_up} overlap={spec.overlap}"),
            ("", f"on_crash={spec.on_crash} retries={spec.retries} priority={spec.priority}"),
            ("Timeout", in_seconds(spec.timeout)),
            ("Lock key", spec.lock),
            ("Changed", exactly(schedule.updated_at, now)),
            ("Next", [exactly(t, now) for t in times] or "none"),
        ]
    )
    if occurrences:
        page.line()
        page.table(
            ["NOMINAL", "OUTCOME", "RUN", "WHY"],
            (
                [
                    [when(o.nominal, now)]
                    + ([f"to {when(o.last, now)}"] if o.last > o.nominal else []),
                    outcome(o, run),
                    o.run_id,
                    o.reason or (summary(run.error) if run else None),
                ]
                for o, run in past
            ),
            empty="No occurrences yet.",
        )


@schedules.command("run-now")
@click.argument("name")
@of_store_and_leases
@as_json
@click.option("--key", help="The same key again gives the same run: safe to repeat.")
@click.option(
    "--wait",
    type=SECONDS,
    metavar="SECONDS",
    help="Wait for it to end; exit code 1 unless it succeeded.",
)
def run_now(name: str, store: Store, as_json: bool, key: str | None, wait: float | None) -> None:
    """Run it once, now, beside its plan; paused schedules too.

    Exit code 1 if it was skipped because an earlier run is unfinished.

    \b
    Examples:
      tenure schedules run-now digest --wait 60
      tenure schedules run-now month-end --key 2026-01
    """

    async def act(backend: Opened) -> tuple[datetime, RunRecord, bool, bool]:
        try:
            run_id, new = await backend.schedules.run_now(name, key or secrets.token_hex(8))
        except NotFound:
            await catalog(backend).get(name)  # says it better
            raise
        if run_id is None:
            raise Failed(
                f"{name!r} was not run, since its policy is overlap=skip:"
                f" {await _in_the_way(backend, name)}"
            )
        run = await backend.runs.get(run_id)
        if run is None:
            raise Failed(f"run {run_id} of {name!r} is over and was deleted by its age.")
        alive = any(node.live for node in await backend.leases.all(PRESENCE))
        if wait is not None:
            run = await wait_for(backend, run, wait)
        return await backend.schedules.now(), run, new, alive

    now, run, new, alive = store.ask(act, within=None if wait is not None else 30)
    if as_json:
        print_json({**run_json(run), "new": new})
    else:
        _tell_run(run, now, store.address, new=new, waited=wait is not None)
    if not alive and run.state is RunState.WAITING:
        say("No node is running: it waits until one starts.", err=True)
    if wait is None:
        return
    if run.state not in FINISHED:
        raise Failed(f"run {run.id} is {run.state} after {wait:g} s; it goes on.")
    if run.state is not RunState.SUCCEEDED:
        raise Failed(f"run {run.id} {run.state}: {summary(run.error) or 'no error recorded'}")


async def _in_the_way(backend: Opened, name: str) -> str:
    """Which run it is, and what has to happen before it is out of the way."""
    at = backend.address
    lock = (await catalog(backend).get(name)).spec.lock
    claimed = await backend.runs.all(state=RunState.CLAIMED, limit=10_000)
    waiting = await backend.runs.all(state=RunState.WAITING, limit=10_000)
    run = next((run for run in (*claimed, *waiting) if run.lock == lock), None)
    if run is None:
        return "an earlier run of its lock was unfinished just now. Try again."
    what = f"run {run.id} of {run.schedule!r} has the same lock and"
    if run.state is RunState.CLAIMED:
        return (
            f"{what} is being executed. `{at.command('leases', 'list')}` shows who holds the lock."
        )
    return (
        f"{what} waits to be executed, so nobody holds it yet."
        f" `{at.command('runs', 'show', name=str(run.id))}` shows it, `{at.command('doctor')}`"
        " whether there is a node to take it."
    )


def _tell_run(run: RunRecord, now: datetime, at: Address, *, new: bool, waited: bool) -> None:
    if waited:
        Page().facts(run_facts(run, now))
    elif new:
        command = at.command("runs", "show", name=str(run.id))
        say(f"Run {run.id} of {run.schedule} is {run.state}: `{command}`")
    else:
        say(f"Run {run.id} has that key already; it is {run.state}, nothing was added.")
