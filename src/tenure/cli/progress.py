"""How far a long command has come: a bar on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self

import click
from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

LINES = 10
"""Where there is no bar: a whole takes at most so many lines."""


class Progress:
    """Counts up to `total`, on stderr."""

    def __init__(self, verb: str, total: int, *, unit: str, quiet: bool = False) -> None:
        self._verb = verb
        self._total = total
        self._unit = unit
        self._done = 0
        self._told = 0
        self._bar: Bar | None = None
        self._quiet = quiet
        if sys.stderr.isatty() and not quiet:
            columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
            console = Console(stderr=True)
            self._bar = Bar(*columns, TimeRemainingColumn(), console=console, transient=True)
            self._task = self._bar.add_task(verb, total=total)

    def step(self, amount: int) -> None:
        self._done += amount
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done)
        elif not self._quiet and self._unit != "bytes":
            tenth = LINES * self._done // max(1, self._total)
            if tenth > self._told:
                self._told = tenth
                whole = max(self._total, self._done)  # it may have grown meanwhile
                click.echo(f"{self._verb}: {self._done:,} of {whole:,} {self._unit}", err=True)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
