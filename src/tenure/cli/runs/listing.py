"""`tenure runs list` and `show`: what was executed, where, and how it ended."""

from __future__ import annotations

from datetime import datetime

import click

from tenure.cli.errors import Failed
from tenure.cli.hung_runs import Hung, hung_among, with_hung
from tenure.cli.numbers import COUNT, ID
from tenure.cli.opened import Opened
from tenure.cli.output import Page, print_json, when
from tenure.cli.runs.attempts import attempt_json, bar, progress_json, share, show_attempts
from tenure.cli.runs.filters import Filter, of_runs
from tenure.cli.runs.output import run_facts, run_json, summary, took
from tenure.cli.runs.wait_reasons import why_it_waits
from tenure.cli.store import Store, as_json, of_store_and_leases
from tenure.model import Attempt, Report, RunRecord, RunState
from tenure.words import short


@click.command("list")
@of_store_and_leases
@as_json
@of_runs
@click.option(
    "--state", type=click.Choice([state.value for state in RunState]), help="Only in this state."
)
@click.option("--limit", default=50, show_default=True, type=COUNT, help="How many.")
def list_runs(store: Store, as_json: bool, chosen: Filter, state: str | None, limit: int) -> None:
    """List runs, newest first.

    \b
    Examples:
      tenure runs list --state failed
      tenure runs list --schedule digest --limit 5 --json
    """

    async def look(
        backend: Opened,
    ) -> tuple[datetime, list[RunRecord], dict[int, Report], dict[int, Hung]]:
        found = await chosen.find(backend, state, limit)
        if not found:
            await chosen.check(backend)
        claimed = [run.id for run in found if run.state is RunState.CLAIMED]
        told = await backend.runs.reported(claimed) if claimed else {}
        return await backend.now(), found, told, await hung_among(backend, found)

    now, found, told, hung = store.ask(look)
    if as_json:
        print_json(
            [{**with_hung(run_json(run), hung), **progress_json(told.get(run.id))} for run in found]
        )
        return
    Page().table(
        ["RUN", "SCHEDULE", "STATE", "NOMINAL", "TOOK", "+ATTEMPT", "NODE", "+PROGRESS", "+ERROR"],
        (
            [
                run.id,
                run.schedule or f"({run.task})",
                "hung" if run.id in hung else run.state,
                when(run.nominal, now),
                took(run),
                None if run.attempt == 1 else run.attempt,
                short(run.node),
                share(told[run.id].progress, told[run.id].message) if run.id in told else None,
                summary(run.error),
            ]
            for run in found
        ),
        empty="No runs.",
    )


@click.command()
@click.argument("run_id", metavar="RUN", type=ID)
@of_store_and_leases
@as_json
def show(run_id: int, store: Store, as_json: bool) -> None:
    """Show one run with its attempts, its progress, the end of its log and its whole error. Exit
    code 1 if there is no such run.

    \b
    Example:
      tenure runs show 1042
    """

    async def look(
        backend: Opened,
    ) -> tuple[datetime, RunRecord | None, list[Attempt], dict[int, Hung], str | None]:
        found, now = await backend.runs.find([run_id]), await backend.now()
        attempts = await backend.runs.attempts(run_id) if found else []
        hung = await hung_among(backend, found)
        why = await why_it_waits(backend, found[0], now) if found else None
        return now, found[0] if found else None, attempts, hung, why

    now, run, attempts, hung, why = store.ask(look)
    if run is None:
        raise Failed(
            f"there is no run {run_id}. `{store.address.command('runs', 'list')}` shows the latest;"
            " finished ones are deleted when they are older than the retention time."
        )
    if as_json:
        shown = with_hung(run_json(run), hung)
        told = [attempt_json(each) for each in attempts]
        print_json({**shown, "waits_because": why, "attempts": told})
        return
    page = Page()
    present = next((each for each in attempts if each.claim == run.claim), None)
    progress = None if present is None else bar(present.progress, present.message)
    stuck = [("Hung", each.text(now)) for each in hung.values()]
    more = [("Waits because", why), ("Progress", progress), *stuck]
    page.facts([*run_facts(run, now, hung=bool(hung)), *more])
    for each in hung.values():
        page.line()
        page.text(each.stack)
    if attempts:
        show_attempts(page, attempts, now)
    if run.error:
        page.line()
        page.text(run.error.rstrip())
