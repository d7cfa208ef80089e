"""`tenure backup`: a copy of the store, while everything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from tenure.backends.base import BacksUp
from tenure.cli.output import print_json, say
from tenure.cli.progress import Progress
from tenure.cli.store import Store, as_json, chosen, url_option
from tenure.process.clock import SystemClock


@click.command()
@url_option
@as_json
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.argument("file", type=click.Path(path_type=Path))
def backup(as_json: bool, force: bool, file: Path, **given: Any) -> None:
    """Copy a SQLite store to FILE, while everything runs.

    The copy is the store as it is at one instant, with everything that was committed before. It is
    checked before it gets its name.

    \b
    Examples:
      tenure backup /backup/tenure.db
      tenure backup --url sqlite:////var/lib/app/tenure.db --force latest.db
      tenure backup "/backup/tenure-$(date +%F).db" --json
    """
    store = Store.parse(chosen("url", given), "default", alone=True)
    if not store.has_schedules:
        raise click.UsageError(
            "leases need no backup: restored leases would name holders that are long gone."
            " Back up the store of the schedules: --url sqlite:///… (PostgreSQL: pg_dump)."
        )
    backend = store.whole()
    if not isinstance(backend, BacksUp):
        raise click.UsageError(
            f"{backend.location} has its own tools for this: for PostgreSQL use pg_dump"
            " (--schema=tenure for Tenure's tables alone), which copies a database in use as it is"
            " at one instant, or your provider's backups. This command copies SQLite files."
        )
    clock = SystemClock()
    begun = clock.monotonic()
    with _progress(quiet=as_json) as progress:
        backend.back_up(file, replace=force, progress=progress)
    took = clock.monotonic() - begun
    copied = file.stat().st_size
    if as_json:
        print_json(
            {
                "store": backend.location,
                "file": str(file.absolute()),
                "bytes": copied,
                "seconds": round(took, 3),
            }
        )
    else:
        say(f"{backend.location}: copied to {file} ({copied:,} bytes), and checked.")


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Shown from the moment on at which it is known how much there is."""
    shown: Progress | None = None
    known = 0
    with ExitStack() as stack:

        def tell(done: int, total: int) -> None:
            nonlocal shown, known
            if shown is None:
                shown = stack.enter_context(Progress("Copying", total, unit="pages", quiet=quiet))
            shown.step(done - known)
            known = done

        yield tell
