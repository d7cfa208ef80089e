"""`tenure schedules backfill`: fire what was missed, after all."""

from __future__ import annotations

from datetime import datetime, timedelta

import click

from tenure.cli.numbers import Whole
from tenure.cli.opened import Opened
from tenure.cli.output import Page, iso, print_json
from tenure.cli.store import Store, as_json, of_store
from tenure.errors import InvalidSchedule, InvalidTrigger
from tenure.schedules.editor import BACKFILL_LIMIT, stretch
from tenure.triggers import load, moments

SHOWN = 20


@click.command()
@click.argument("name")
@click.option("--from", "start", required=True, metavar="TIME", help="The first time.")
@click.option("--to", "end", required=True, metavar="TIME", help="The last time, included.")
@click.option("--dry-run", is_flag=True, help="Only show what would be run.")
@click.option(
    "--limit",
    default=BACKFILL_LIMIT,
    show_default=True,
    type=Whole(1, 100_000),
    help="Refuse a stretch with more occurrences.",
)
@click.option(
    "--beyond-history",
    is_flag=True,
    help="Include times whose runs may have been deleted from history.",
)
@of_store
@as_json
def backfill(
    name: str,
    start: str,
    end: str,
    dry_run: bool,
    limit: int,
    beyond_history: bool,
    store: Store,
    as_json: bool,
) -> None:
    """Run what was missed or skipped between two times: one run for each, in order.

    The times are those of the current trigger, up to now, and may be from before the schedule
    existed. What was fired or backfilled already is left out, so you can repeat the command. Times
    beyond the stored history are refused, since they may have been run. A TIME without an offset
    is local, in the schedule's time zone. A date means the whole day.

    \b
    Examples:
      tenure schedules backfill report --from 2026-03-01 --to 2026-03-07 --dry-run
      tenure schedules backfill report --from 2026-03-01T00:00Z \\
        --to 2026-03-01T12:00Z
    """

    async def act(backend: Opened) -> tuple[str, list[datetime]]:
        editor = backend.editor()
        trigger = load((await editor.get(name)).spec.trigger)
        try:
            first = trigger.explain(moments.read("--from", start)).moment
            last = trigger.explain(moments.read("--to", end)).moment
            if len(end.strip()) == len("2026-03-01"):
                last += timedelta(days=1, microseconds=-1)
            stretch(first, last)
        except (InvalidTrigger, InvalidSchedule) as error:
            raise click.UsageError(str(error)) from error
        chosen = await editor.backfill(
            name, first, last, limit=limit, dry_run=dry_run, beyond_history=beyond_history
        )
        return str(trigger), chosen

    rule, chosen = store.ask(act)
    if as_json:
        print_json({"schedule": name, "dry_run": dry_run, "nominal": [iso(n) for n in chosen]})
        return
    page = Page()
    if not chosen:
        page.line(f"Nothing to do: between these two, all times of {rule} were fired.")
        return
    verb = "would be run" if dry_run else "will be run"
    many = f"{len(chosen):,} occurrence{'s' if len(chosen) > 1 else ''}"
    page.line(f"{many} of {name} {verb}, times of {rule}:")
    for nominal in chosen[:SHOWN]:
        page.line(f"  {iso(nominal)}")
    if len(chosen) > SHOWN:
        page.line(f"  … and {len(chosen) - SHOWN:,} more, the last {iso(chosen[-1])}", style="dim")
