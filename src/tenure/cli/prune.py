"""`tenure prune`: delete what is old, now rather than later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import click

from tenure.backends.base import FREE_AFTER
from tenure.cli.numbers import LONGEST
from tenure.cli.output import Page, print_json, span
from tenure.cli.progress import Progress
from tenure.cli.store import Opened, Store, as_json, of_leases
from tenure.errors import InvalidTrigger
from tenure.node import LEADER
from tenure.presence import PRESENCE
from tenure.roster import declared_by
from tenure.triggers.text import seconds

BATCH = 1_000
ALL = 10**9
Found = dict[str, int | None]
_NOUNS = {
    "leases": "lease that nobody holds",
    "history": "line of lease history",
    "runs": "finished run or occurrence",
    "releases": "release",
}
_MANY = {
    "leases": "leases that nobody holds",
    "history": "lines of lease history",
    "runs": "finished runs and occurrences",
    "releases": "releases",
}


class Age(click.ParamType[float]):
    """A length of time, such as 7d or 1h30m."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: object) -> float:
        try:
            found = seconds("--older-than", str(value))
        except InvalidTrigger as error:
            raise click.UsageError(str(error)) from error
        if found > LONGEST:
            raise click.UsageError("--older-than: more than a century ago nothing ended.")
        return found


@click.command()
@click.option(
    "--older-than",
    type=Age(),
    default="7d",
    show_default=True,
    metavar="TIME",
    help="Delete what ended longer ago: 30d, 12h, 90m.",
)
@click.option("--dry-run", is_flag=True, help="Only say how much would be deleted.")
@of_leases
@as_json
def prune(older_than: float, dry_run: bool, store: Store, as_json: bool) -> None:
    """Delete what is old: finished runs, occurrences, lease history, releases, unused leases.

    A leader does this by itself, and so does every process that uses leases; this is for doing it
    now, or more thoroughly. It is safe while nodes are at work: it deletes only what has ended, in
    small parts, and lease terms never start again. Repeat it if it was interrupted.

    Of a Redis alone it deletes leases and their history. Releases are deleted only while somebody
    leads, because only then it is known which are in use. For leases elsewhere, give --leases.

    \b
    Examples:
      tenure prune --dry-run
      tenure prune --older-than 30d
      tenure prune --url redis://cache:6379/0
    """

    async def act(backend: Opened) -> Found:
        found = await _walk(backend, older_than, lambda _: None, dry_run=True)
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
    if store.has_schedules and found["releases"] is None:
        page.line("Releases were left alone: nobody leads, so it is not known which are in use.")


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
    found: Found = {"leases": await _forget(backend, age, step, dry_run=dry_run)}
    found["history"] = await parts(
        lambda limit: leases.forget_history(age, limit=limit, dry_run=dry_run)
    )
    found["runs"] = found["releases"] = None
    if not backend.has_schedules:
        return found
    found["runs"] = await parts(lambda limit: backend.runs.prune(None, age, limit, dry_run=dry_run))
    leader = await leases.read(LEADER)
    if leader is not None and leader.live:
        used = declared_by(await leases.all(PRESENCE))
        found["releases"] = await backend.releases.prune(None, age, used, dry_run=dry_run)
    return found


async def _forget(
    backend: Opened, age: float, step: Callable[[int], None], *, dry_run: bool
) -> int:
    total, after = 0, ""
    while True:
        forgotten = await backend.leases.forget(
            "", age, free_after=min(age, FREE_AFTER), after=after, dry_run=dry_run
        )
        total += forgotten.count
        after = forgotten.after
        if not dry_run:
            step(forgotten.count)
        if not after:
            return total
