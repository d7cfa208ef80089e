"""`tenure copy`: all of a store, moved to another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import click

from tenure.backends.address import Address
from tenure.backends.base import Backend, Copies, CopySide, Upkeep
from tenure.backends.registry import read_url
from tenure.cli.errors import Failed, of_usage
from tenure.cli.output import print_json, say
from tenure.cli.progress import Progress
from tenure.cli.store import Store, as_json
from tenure.copying import copier as steps
from tenure.copying.copier import Copier
from tenure.copying.preflight import Plan, check_empty, check_places, plan
from tenure.process.clock import SystemClock
from tenure.words import count, span

_TOLD = {
    steps.BEGUN: "The target is reserved: nobody else can write to it.",
    steps.COPIED: "The history is copied.",
    steps.DRAINING: "Nothing fires any more. Waiting for claimed runs …",
    steps.DRAINED: "Done waiting.",
    steps.MOVED: "The source refuses all writes.",
    steps.WRITTEN: "The rest is written.",
    steps.COMPARED: "Both stores have the same rows.",
}

FEW = 1_000
"""So few rows are copied before anybody could read how far it has come."""


@click.command()
@click.argument("source")
@click.argument("target")
@as_json
@click.option("--dry-run", is_flag=True, help="Check both stores and tell the sizes; no changes.")
@click.option("--abort", is_flag=True, help="Go back to the source, if the target is incomplete.")
@click.option(
    "--drain",
    type=click.FloatRange(0, 86_400),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for claimed runs. Nothing fires meanwhile.",
)
def copy(source: str, target: str, as_json: bool, dry_run: bool, abort: bool, drain: float) -> None:
    """Move everything from the store SOURCE to the empty store TARGET.

    The source goes on firing while its history is copied. Then it refuses all writes, also those
    of nodes and programs that know nothing of this, and the rest is copied and compared. Start the
    nodes on TARGET afterwards. If this command is interrupted, run it again.

    SOURCE and TARGET are URLs, or @FILE for a file that contains one: a URL with a password does
    not belong in a command. All namespaces are moved.

    \b
    Examples:
      tenure copy sqlite:///tenure.db postgresql://app@db/app --dry-run
      tenure copy sqlite:////var/lib/app/tenure.db @/run/secrets/url
      tenure copy postgresql://app@db/app sqlite:///new.db --drain 300
      tenure copy sqlite:///tenure.db postgresql://app@db/app --abort
    """
    if dry_run and abort:
        raise click.UsageError("--dry-run and --abort cannot be combined.")
    old, new = (
        Store.parse(_url(given, name), "default")
        for given, name in ((source, "SOURCE"), (target, "TARGET"))
    )
    of_usage(lambda: check_places(str(old.address), str(new.address)))
    with _opened(old, migrate=False) as one:
        if dry_run:
            _look(one, new, as_json)
            return
        with _opened(new, migrate=not abort) as two:
            if abort:
                _abort(one, two, as_json)
            else:
                _copy(one, two, drain, as_json)


def _copy(source: CopySide, target: CopySide, drain: float, as_json: bool) -> None:
    clock = SystemClock()
    begun, planned = clock.monotonic(), plan(source, target)
    at: dict[str, float] = {}

    def told(step: str) -> None:
        at[step] = clock.monotonic()
        if step in _TOLD and not as_json:
            say(_TOLD[step], err=True)

    before = target.mark("target")
    if not as_json and (before is None or before.phase != "complete"):
        _print_plan(source, target.location, planned)
    quiet = as_json or planned.total < FEW
    with ExitStack() as shown:
        copying, comparing = (
            _counting(Progress(verb, rows, unit="rows", quiet=quiet), shown)
            for verb, rows in (("Copying", planned.total), ("Comparing", 2 * planned.total))
        )
        work = Copier(source, target, drain=drain, told=told, stepped=copying, compared=comparing)
        mark = work.run()
    paused = at.get(steps.COMPLETE, 0) - at.get(steps.DRAINING, at.get(steps.MOVED, 0))
    rows = sum(digest.rows for digest in work.digests.values())
    if as_json:
        print_json(
            {
                "source": source.location,
                "target": target.location,
                "copy": mark.id,
                "complete": True,
                "rows": rows,
                "tables": {
                    name: {"rows": digest.rows, "digest": str(digest)}
                    for name, digest in sorted(work.digests.items())
                },
                "seconds": round(clock.monotonic() - begun, 3),
                "paused": round(paused, 3) if work.digests else None,
            }
        )
    elif not work.digests:
        say(f"{target.location} is complete already: start the nodes on it.")
    else:
        say(
            f"{source.location}: moved to {target.location}, {count(rows, 'row')}, compared;"
            f" nothing fired for {span(paused)}. Start the nodes on the new store."
        )


def _counting(progress: Progress, shown: ExitStack) -> Callable[[int], None]:
    """Shows it from the first rows on, in place of the one before: a terminal has one bar."""
    begun = False

    def step(rows: int) -> None:
        nonlocal begun
        if not begun:
            begun = True
            shown.pop_all().close()
            shown.enter_context(progress)
        progress.step(rows)

    return step


def _abort(source: CopySide, target: CopySide, as_json: bool) -> None:
    Copier(source, target, drain=0).abort()
    if as_json:
        print_json({"source": source.location, "target": target.location, "aborted": True})
    else:
        say(f"Aborted: {source.location} is in use again, and {target.location} is empty.")


def _look(source: CopySide, target: Store, as_json: bool) -> None:
    backend = target.whole()
    if not isinstance(backend, Upkeep) or not isinstance(backend, Copies):
        raise Failed(f"{backend.location}: this backend cannot be copied to.")
    pending = asyncio.run(backend.pending()).names
    if pending:
        backend.check_target()
        planned = plan(source, None)
    else:
        with _opened(target, migrate=False) as side:
            planned = plan(source, side)
            if side.mark("target") is None:
                check_empty(side)
    if not as_json:
        _print_plan(source, backend.location, planned)
        say("Nothing was changed.")
        return
    print_json(
        {
            "source": source.location,
            "target": backend.location,
            "rows": planned.total,
            "tables": dict(planned.rows),
            "claimed": planned.claimed,
            "migrations": list(pending),
            "seconds": round(planned.seconds),
            "paused": round(planned.pause),
        }
    )


def _print_plan(source: CopySide, target: str, planned: Plan) -> None:
    filled = {name: rows for name, rows in planned.rows.items() if rows}
    largest = sorted(filled.items(), key=lambda item: -item[1])[:3]
    sizes = ", ".join(f"{name} {rows:,}" for name, rows in largest)
    sizes += ", …" if len(filled) > len(largest) else ""
    claimed = ""
    if planned.claimed:
        claimed = f", and until claimed runs have ended: {planned.claimed:,} at the moment"
    say(f"From {source.location} to {target}.", err=True)
    say(
        f"{count(planned.total, 'row')}{f' ({sizes})' if sizes else ''}: about"
        f" {span(planned.seconds)}. Then nothing fires for about {span(planned.pause)}{claimed}.",
        err=True,
    )


def _url(given: str, name: str) -> str:
    return of_usage(lambda: read_url(given[1:], name)) if given.startswith("@") else given


@contextmanager
def _opened(store: Store, *, migrate: bool) -> Iterator[CopySide]:
    """A side of a copy. Opening the store checks its tables, or creates them."""
    backend: Backend = store.whole()
    if not isinstance(backend, Copies):
        raise click.UsageError(
            f"{Address(store.url)} cannot be copied: SQLite and PostgreSQL can. Leases in Redis"
            " stay where they are."
        )

    async def checked() -> None:
        await backend.open(migrate=migrate)
        await backend.close()

    asyncio.run(checked())
    side = backend.copy_side()
    try:
        yield side
    finally:
        side.close()
