"""What every `tenure import` does with what it found: say it, and write the files."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tenure.backends.address import NOWHERE
from tenure.cli.errors import Failed
from tenure.cli.imports.candidates import Found, checked
from tenure.cli.output import print_json, say
from tenure.process.clock import SystemClock
from tenure.words import count


@dataclass(frozen=True, slots=True)
class Delivery:
    """Where to."""

    dry_run: bool
    write: Path | None
    stub: Path | None
    as_json: bool

    def deliver(self, found: Sequence[Found], stub: Callable[[Sequence[Found]], str]) -> None:
        """Report, and write the lines and the file of tasks; exit code 1 if one was left out."""
        every = checked(found, SystemClock().now())
        kept = [one for one in every if one.entry is not None]
        if not self.dry_run and kept:
            for path in (self.stub, self.write):  # both or none
                if path is not None and path.exists():
                    raise _exists(path)
            if self.stub is not None:
                self._write(self.stub, stub(kept))
            lines = "".join(f"{one.as_line()}\n" for one in kept)
            if self.write is not None:
                self._write(self.write, lines)
            elif not self.as_json:
                click.echo(lines, nl=False)
        if self.as_json:
            print_json({"found": [one.as_json() for one in every], "dry_run": self.dry_run})
        else:
            self._report(every, len(kept))
        if len(kept) < len(every):
            click.get_current_context().exit(1)

    def _report(self, every: Sequence[Found], kept: int) -> None:
        """On standard error: the lines themselves may go to standard output."""
        for one in every:
            if one.reason is not None:
                say(f"left out: {one.source}: {one.reason}", err=True)
            for note in one.notes if one.reason is None else ():
                say(f"note: {one.source}: {note}", err=True)
        left = len(every) - kept
        text = f"{count(kept, 'schedule')} carried over, {left:,} left out"
        if self.dry_run:
            say(f"{text}; nothing was written (--dry-run).", err=True)
        elif self.write is not None and kept:
            add = NOWHERE.command("schedules add --file", name=str(self.write))
            say(f"{text}. Add them: {add}", err=True)
        else:
            say(f"{text}.", err=True)

    @staticmethod
    def _write(path: Path, text: str) -> None:
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            raise _exists(path) from None
        except OSError as error:
            raise Failed(f"{path} cannot be written: {error.strerror}.") from error


def _exists(path: Path) -> Failed:
    return Failed(f"{path} exists already. Nothing was written: remove it, or choose another file.")


def of_delivery(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command --dry-run, --write, --stub and --json, as one argument `delivery`."""

    @click.option("--dry-run", is_flag=True, help="Show what would be written; write nothing.")
    @click.option(
        "--write",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Write the JSON lines to this new file.  [default: standard output]",
    )
    @click.option(
        "--stub",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Write the declarations of their tasks to this new Python file.",
    )
    @click.option("--json", "as_json", is_flag=True, help="The report as JSON.")
    @functools.wraps(command)
    def wrapper(
        *args: Any,
        dry_run: bool,
        write: Path | None,
        stub: Path | None,
        as_json: bool,
        **given: Any,
    ) -> Any:
        return command(*args, delivery=Delivery(dry_run, write, stub, as_json), **given)

    return wrapper
