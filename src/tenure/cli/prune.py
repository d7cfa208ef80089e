"""`tenure prune`: delete what is old, now rather than later."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import click

from tenure.backends.base import FREE_AFTER
from tenure.cli.numbers import LONGEST
from tenure.cli.opened import Opened
from tenure.cli.output import Page, print_json
from tenure.cli.progress import Progress
from tenure.cli.store import Store, as_json, of_leases
from tenure.errors import InvalidTrigger
from tenure.node.names import LEADER, PRESENCE
from tenure.node.roster import declared_by
from tenure.printable import brief
from tenure.triggers.text import seconds
from tenure.words import span

BATCH = 1_000
ALL = 10**9
NEVER = 100 * 366 * 86_400.0
Found = dict[str, int | None]
_NOUNS = {
    "leases": "lease that nobody holds",
    "history": "line of lease history",
    "runs": "finished run or occurrence",
    "events": "event that all have read",
    "editions": "edition",
}
_MANY = {
    "leases": "leases that nobody holds",
    "history": "lines of lease history",
    "runs": "finished runs and occurrences",
    "events": "events that all have read",
    "editions": "editions",
}


class Age(click.ParamType[float]):
    """A duration, such as 7d or 1h30m."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: object) -> float:
        if re.fullmatch(r"[\d.]+", str(value)):
            raise click.UsageError(
                f"--older-than={brief(value)} has no unit: write 30d, 12h, 90m or 45s."
            )
        try:
            found = seconds("--older-than", str(value))
        except InvalidTrigger as error:
            raise click.UsageError(
                f"--older-than={brief(value)} is not a duration: write 30d, 12h or 90m."
            ) from error
        if found > LONGEST:
            raise click.UsageError("--older-than: give at most a century.")
        return found


@click.command()
@click.option(
    "--older-than",
    type=Age(),
    default="7d",
    show_default=True,
    metavar="TIME",
    help="Delete what ended longer ago than this: 30d, 12h, 90m.",
)
@click.option("--dry-run", is_flag=True, help="Only show how much would be deleted.")
@of_leases
@as_json
def prune(older_than: float, dry_run: bool, store: Store, as_json: bool) -> None:
    """Delete what is old: finished runs, occurrences, read events, lease history, editions, leases.

    A leader does this by itself, and so does every process that uses leases; this command does it
    now, or more thoroughly. It is safe while nodes run: it deletes only what has ended, in small
    steps, and lease terms never start over. Repeat it if it was interrupted.

    On Redis alone it deletes leases and their history. It deletes editions only while there is a
    leader, because only then is it known which are in use. For leases elsewhere, give --leases.

    \b
    Examples:
      tenure prune --dry-run
      tenure prune --older-than 30d
      tenure prune --url redis://cache:6379/0
    """

    async def act(backend: Opened) -> Found:
        found = await _walk(backend, older_than, lambda _: None, dry_run=True)
        if not any(found.values()):
            await backend.tell_namespace()
        if dry_run:
            return found
        total = sum(number or 0 for number in found.values())
        with Progress("Pruning", total, unit="records", quiet=as_json) as progress:
            return await _walk(backend, older_than, progress.step, dry_run=False)

    found = store.ask(act, within=None)
    if as_json:
        print_json({"older_than": older_than, "dry_run": dry_run, "pruned": found})
        return
    page = Page()
    verb = "Would delete" if dry_run else "Deleted"
    page.line(f"{verb} what ended more than {span(older_than)} ago:")
    for kind, number in found.items():
        if number is not None:
            page.line(f"  {number:>9,} {_NOUNS[kind] if number == 1 else _MANY[kind]}")
    if store.has_schedules and found["editions"] is None:
        hint = store.ask(lambda backend: backend.leases_unknown())
        why = "it is not known here who leads" if hint else "nobody leads"
        page.line(f"Editions were left alone: {why}, so it is not known which are in use.")
        if hint:
            page.line(hint)


async def _walk(
    backend: Opened, age: float, step: Callable[[int], None], *, dry_run: bool
) -> Found:
    """Everything of that age, deleted part by part, or only counted."""

    async def parts(part: Callable[[int], Awaitable[int]]) -> int:
        if dry_run:
            return await part(ALL)
        total = 0
        while number := await part(BATCH):
            total += number
            step(number)
        return total

    leases = backend.leases
    found: Found = {}
    found["leases"], found["history"] = await _forget(backend, age, step, dry_run=dry_run)
    found["runs"] = found["events"] = found["editions"] = None
    if not backend.has_schedules:
        return found

    async def runs(limit: int) -> int:
        return (await backend.runs.prune(None, age, limit, dry_run=dry_run)).count

    async def events(limit: int) -> int:
        # Unread events stay, whatever their age: a leader decides that.
        return (await backend.events.trim(None, age, NEVER, limit, dry_run=dry_run)).count

    found["runs"] = await parts(runs)
    found["events"] = await parts(events)
    leader = await leases.read(LEADER)
    if leader is not None and leader.live:
        used = declared_by(await leases.all(PRESENCE))
        found["editions"] = await backend.editions.prune(None, age, used, dry_run=dry_run)
    return found


async def _forget(
    backend: Opened, age: float, step: Callable[[int], None], *, dry_run: bool
) -> tuple[int, int]:
    """How many leases, and how many lines of their history."""
    leases, lines, after = 0, 0, ""
    while True:
        forgotten = await backend.leases.forget(
            "",
            age,
            free_after=min(age, FREE_AFTER),
            lines_after=None if dry_run and after else age,
            limit=ALL if dry_run else BATCH,
            after=after,
            dry_run=dry_run,
        )
        leases, lines = leases + forgotten.count, lines + forgotten.lines
        after = forgotten.after
        if not dry_run:
            step(forgotten.count + forgotten.lines)
        if not after and (dry_run or not (forgotten.count or forgotten.lines)):
            return leases, lines
