"""`tenure schedules list`, `show` and `run-now`."""

from __future__ import annotations

import secrets
from datetime import datetime

import click

from tenure.backends.address import Address
from tenure.cli.errors import Failed, of_usage
from tenure.cli.numbers import COUNT, SECONDS, SOME
from tenure.cli.opened import Opened
from tenure.cli.output import Page, exactly, in_seconds, iso, loaded, print_json, say, when
from tenure.cli.runs.output import run_facts, run_json, summary
from tenure.cli.runs.wait import FINISHED, wait_for
from tenure.cli.schedules.output import (
    legend,
    occurrence_json,
    outcome,
    rule,
    schedule_json,
    state,
    strip,
    summary_json,
    target,
    upcoming,
)
from tenure.cli.store import Store, as_json, of_store, of_store_and_leases
from tenure.model import (
    Kind,
    Occurrence,
    RunRecord,
    RunState,
    Schedule,
    ScheduleSpec,
    ScheduleSummary,
    occurrence_event,
)
from tenure.node.names import PRESENCE
from tenure.tasks.arguments import idempotency_key

PORTION = 1_000
"""Of how many schedules one statement tells what became of the last times."""
_NO_NODE = "No node is running: it waits until one starts."


@click.command("list")
@of_store
@as_json
@click.option("--tenant", help="Only this tenant's.")
@click.option("--limit", default=1_000, show_default=True, type=COUNT, help="How many.")
@click.option("--ended", is_flag=True, help="Also those that ended longer ago than the retention.")
def list_schedules(
    store: Store, as_json: bool, tenant: str | None, limit: int, ended: bool
) -> None:
    """List schedules by name, with the outcome of the last times that they were due.

    \b
    Examples:
      tenure schedules list
      tenure schedules list --json | jq -r '.[] | select(.active | not) | .name'
    """

    async def look(
        backend: Opened,
    ) -> tuple[datetime, list[Schedule], dict[int, list[str]], dict[int, ScheduleSummary]]:
        named = await backend.schedules.find(tenant=tenant, limit=limit, ended=ended)
        if not named:
            await backend.tell_namespace()
            await backend.tell_unknown(None, tenant)
        found, recent = list(named.values()), dict[int, list[str]]()
        known = dict[int, ScheduleSummary]()
        for first in range(0, len(found), PORTION):
            uids = [schedule.uid for schedule in found[first : first + PORTION]]
            recent |= await backend.schedules.recent(uids)
            known |= await backend.summaries.of(uids)
        return await backend.now(), found, recent, known

    now, found, recent, known = store.ask(look)
    if as_json:
        more = {s.uid: {"recent": recent.get(s.uid, [])} for s in found}
        print_json([schedule_json(s) | more[s.uid] | summary_json(known.get(s.uid)) for s in found])
        return
    page = Page()
    page.table(
        [
            *("NAME", "STATE", "TRIGGER", "NEXT", "LAST", "+LAST TEN"),
            *("+WHY NOT ACTIVE", "+TARGET", "+TENANT"),
        ],
        (
            [
                schedule.name,
                state(schedule),
                rule(schedule),
                when(schedule.next_due, now) if schedule.active else None,
                next(iter(recent.get(schedule.uid, [])), None),
                strip(recent.get(schedule.uid, [])),
                schedule.reason,
                target(schedule),
                schedule.tenant,
            ]
            for schedule in found
        ),
        empty="No schedules.",
    )
    if recent:
        page.line(f"Last ten, the newest on the right: {legend(recent.values())}", style="dim")
    if len(found) == limit:
        page.line(f"The first {limit:,}; --limit shows more.", style="dim")


@click.command()
@click.argument("name")
@of_store
@as_json
@click.option(
    "--occurrences", default=10, show_default=True, type=SOME, help="How many past times."
)
@click.option(
    "--next", "ahead", default=5, show_default=True, type=SOME, help="How many future times."
)
def show(name: str, store: Store, as_json: bool, occurrences: int, ahead: int) -> None:
    """Show a schedule: its rule and policies, its next times, and what became of the last ones.

    Every past time is listed with its outcome: fired, skipped or missed, and the reason.

    \b
    Examples:
      tenure schedules show digest
      tenure schedules show digest --occurrences 100 --json
    """

    async def look(
        backend: Opened,
    ) -> tuple[datetime, Schedule, list[tuple[Occurrence, RunRecord | None]]]:
        schedule = await backend.editor().get(name)
        past = await backend.schedules.occurrences(name, occurrences) if occurrences else []
        ids = [o.run_id for o in past if o.run_id is not None]
        known = {run.id: run for run in await backend.runs.find(ids)}
        runs = [known.get(o.run_id or 0) for o in past]
        return await backend.now(), schedule, list(zip(past, runs, strict=True))

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
            ("Task", spec.task or None),
            ("Emits", spec.event and f"{spec.event.type} to {spec.event.topic}"),
            ("Data", spec.event and spec.event.data),
            ("Key", spec.event and spec.event.key),
            *((f"Header {name}", value) for name, value in _headers(spec)),
            ("Arguments", spec.kwargs if spec.kwargs != "{}" else None),
            ("Tenant", spec.tenant),
            ("Declared by", f"the code of app {spec.app!r}" if spec.app else "run time (added)"),
            ("Policies", f"catch_up={spec.catch_up}{_of_runs(spec)}"),
            ("", _more_of_runs(spec)),
            ("Timeout", in_seconds(spec.timeout)),
            ("Lock key", spec.lock if spec.event is None else None),
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


def _tell_event(name: str, event: str, *, new: bool, as_json: bool) -> None:
    if as_json:
        print_json({"event": event, "new": new})
    else:
        say(f"{name} has emitted the event {event}{'' if new else ' before: the key is known'}.")


def _of_runs(spec: ScheduleSpec) -> str:
    return f" overlap={spec.overlap}" if spec.event is None else ""


def _headers(spec: ScheduleSpec) -> list[tuple[str, str]]:
    """Of the event; somebody may have edited the row."""
    headers = {} if spec.event is None else loaded(spec.event.headers)
    return [(k, str(v)) for k, v in headers.items()] if isinstance(headers, dict) else []


def _more_of_runs(spec: ScheduleSpec) -> str | None:
    if spec.event is not None:
        return None
    return f"on_crash={spec.on_crash} retries={spec.retries} priority={spec.priority}"


@click.command("run-now")
@click.argument("name")
@of_store_and_leases
@as_json
@click.option("--key", help="The same key gives the same run, so it is safe to repeat.")
@click.option(
    "--wait",
    type=SECONDS,
    metavar="SECONDS",
    help="Wait for it to end; exit code 1 unless it succeeded.",
)
def run_now(name: str, store: Store, as_json: bool, key: str | None, wait: float | None) -> None:
    """Run it once, now, outside its plan, even if it is paused.

    The exit code is 1 if it was skipped because an earlier run is unfinished.

    \b
    Examples:
      tenure schedules run-now digest --wait 60
      tenure schedules run-now month-end --key 2026-01
    """

    chosen = secrets.token_hex(8) if key is None else of_usage(lambda: idempotency_key(key))

    async def act(backend: Opened) -> tuple[datetime, RunRecord | str, bool, str | None]:
        editor = backend.editor()
        run_id, new = await editor.request_run(name, chosen)
        schedule = await editor.get(name)
        if schedule.spec.event is not None:
            made = occurrence_event(schedule.uid, Kind.MANUAL, chosen)
            return await backend.now(), made, new, None
        if run_id is None:
            raise Failed(
                f"{name!r} was not run, because its policy is overlap=skip:"
                f" {await _in_the_way(backend, name)}"
            )
        found = await backend.runs.find([run_id])
        if not found:
            raise Failed(f"run {run_id} of {name!r} has ended, and was deleted because of its age.")
        [run] = found
        alive = any(node.live for node in await backend.leases.all(PRESENCE))
        hint = None if alive else await backend.leases_unknown() or _NO_NODE
        if wait is not None:
            run = await wait_for(backend, run, wait)
        return await backend.now(), run, new, hint

    now, run, new, hint = store.ask(act, within=None if wait is not None else 30)
    if isinstance(run, str):
        _tell_event(name, run, new=new, as_json=as_json)
        return
    if as_json:
        print_json({**run_json(run), "new": new})
    else:
        _tell_run(run, now, store.address, new=new, waited=wait is not None)
    if hint is not None and run.state is RunState.WAITING:
        say(hint, err=True)
    if wait is not None:
        _check_succeeded(run, wait)


def _check_succeeded(run: RunRecord, waited: float) -> None:
    if run.state not in FINISHED:
        raise Failed(f"run {run.id} is still {run.state} after {waited:g} s. It was not cancelled.")
    if run.state is not RunState.SUCCEEDED:
        raise Failed(f"run {run.id} {run.state}: {summary(run.error) or 'no error recorded'}")


async def _in_the_way(backend: Opened, name: str) -> str:
    """Which run it is, and what has to happen before it is out of the way."""
    at = backend.address
    lock = (await backend.editor().get(name)).spec.lock
    claimed = await backend.runs.find(state=RunState.CLAIMED, limit=10_000)
    waiting = await backend.runs.find(state=RunState.WAITING, limit=10_000)
    run = next((run for run in (*claimed, *waiting) if run.lock == lock), None)
    if run is None:
        return "an earlier run of its lock was unfinished just now. Try again."
    of = f"{run.schedule!r}" if run.schedule else f"task {run.task!r}"
    what = f"run {run.id} of {of} has the same lock and"
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
