"""What commands print: JSON for programs, tables and plain lines for people.

Times are UTC with a Z in JSON; for people they are local, with the distance from now beside them.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tenure.printable import lines, one_line
from tenure.words import relative

PIPED = 240
GAP = 2
"""How many blanks are between columns."""
NESTED_MOST = 100
"""How deeply JSON is shown."""
_STYLES = {
    "ok": "green",
    "active": "green",
    "live": "green",
    "succeeded": "green",
    "fired": "green",
    "warning": "yellow",
    "paused": "yellow",
    "orphaned": "yellow",
    "skipped": "yellow",
    "missed": "yellow",
    "waiting": "yellow",
    "expired": "yellow",
    "overdue": "yellow",
    "problem": "bold red",
    "set aside": "bold red",
    "failed": "bold red",
    "lost": "bold red",
    "hung": "bold red",
}


def iso(moment: datetime | None) -> str | None:
    """As in JSON: 2026-01-31T07:00:00.000000Z, always with six digits."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def say(text: object, *, err: bool = False) -> None:
    """A line of text, with whatever came into it from outside made harmless."""
    click.echo(one_line(text), err=err)


def print_json(value: object) -> None:
    """Valid JSON, without control characters that a terminal would obey."""
    text = json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False)
    click.echo("".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in text))


def _plain(value: object, depth: int = 0) -> object:
    """The value as JSON can have it: NaN and infinity as null, and other types, such as bytes that
    were put into a row by hand, as text."""
    if depth > NESTED_MOST:
        return "…"
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, depth + 1) for item in value]
    return str(value)


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[n]:02x}{units[n + 1]:02x}" for n in range(0, len(units), 2))


def in_seconds(value: object) -> str | None:
    """What is stored as seconds; SQLite may have been given something else."""
    if value is None:
        return None
    return f"{value:g} s" if isinstance(value, int | float) else str(value)


def when(moment: datetime | None, now: datetime) -> str:
    """Local time with its distance from now; the date only if it is another day."""
    if moment is None:
        return "–"
    local, today = _local(moment), _local(now)
    text = f"{local:%H:%M:%S}" if local.date() == today.date() else f"{local:%Y-%m-%d %H:%M:%S}"
    return f"{text} ({relative(moment, now)})"


def exactly(moment: datetime | None, now: datetime) -> str:
    """The same with date and time zone: for pages about one thing."""
    if moment is None:
        return "–"
    return f"{_local(moment):%Y-%m-%d %H:%M:%S %Z} ({relative(moment, now)})"


def _local(moment: datetime) -> datetime:
    """In the zone of this machine, unless the moment is at the very end of all dates."""
    try:
        return moment.astimezone()
    except (OverflowError, ValueError, OSError):
        return moment


class Page:
    """Writes to the terminal: in its width and colours, or wide and plain if it is none."""

    def __init__(self) -> None:
        wide = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else PIPED
        self.console = Console(width=wide, markup=False, highlight=False, emoji=False)

    def line(self, text: str = "", style: str | None = None) -> None:
        self._write(one_line(text), style)

    def text(self, text: str) -> None:
        """A foreign text of many lines, indented, so that none can pass for one of ours."""
        for line in lines(text).split("\n"):
            self._write(f"  {line}".rstrip())

    def _write(self, text: str, style: str | None = None) -> None:
        self.console.print(text, style=style, soft_wrap=not self.console.is_terminal)

    def table(
        self, columns: Sequence[str], rows: Iterable[Sequence[object]], empty: str = "None."
    ) -> None:
        """A column whose title begins with + is left out if it would be empty. If there is no room
        for it, its values follow below the table. A list is shown as lines, one below the other."""
        rows = list(rows)
        if not rows:
            self.line(empty)
            return
        shown, below = self._divided(columns, rows)
        table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
        for n, width in shown.items():
            # Nothing is cut off: names are copied from here into the next command.
            table.add_column(columns[n].lstrip("+"), overflow="fold", width=width)
        for line in rows:
            table.add_row(*(_cell(line[n]) for n in shown))
        self._print(table)
        for line in rows:
            more = [
                f"{columns[n].lstrip('+').lower()}: {line[n]}" for n in below if line[n] is not None
            ]
            if more:
                self.line(f"{_cell(line[0]).plain}  {'; '.join(more)}", style="dim")

    def _divided(
        self, columns: Sequence[str], rows: Sequence[Sequence[object]]
    ) -> tuple[dict[int, int], list[int]]:
        """Which columns stand beside each other, how wide, and for which there is no room."""
        whole = {
            n: max(cell_len(title.lstrip("+")), _width(rows, n))
            for n, title in enumerate(columns)
            if not title.startswith("+") or any(line[n] is not None for line in rows)
        }
        room = self.console.width
        # What is longer may be folded to this; the names in the first column are the last to be.
        least = {n: min(width, max(10, room * 3 // 10)) for n, width in whole.items()}
        least[0] = min(whole[0], room * 2 // 5)
        beside = [n for n in whole if not columns[n].startswith("+")]
        while len(beside) > 1 and _beside(least[n] for n in beside) > room:
            beside.pop()
        for n in whole:
            if columns[n].startswith("+") and _beside(whole[m] for m in (*beside, n)) <= room:
                beside.append(n)
        widths = {n: whole[n] for n in sorted(beside)}
        while _beside(widths.values()) > room:
            widest = max(widths, key=lambda n: (widths[n] > least[n], widths[n], n))
            widths[widest] -= 1
        return widths, [n for n in whole if n not in widths]

    def facts(self, pairs: Iterable[tuple[str, object]]) -> None:
        """Names on the left, values on the right; a value of None is left out."""
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in pairs:
            if value is not None:
                table.add_row(name, _cell(value))
        self._print(table)

    def _print(self, table: Table) -> None:
        if self.console.is_terminal:
            self.console.print(table)
            return
        with self.console.capture() as captured:
            self.console.print(table)
        for line in captured.get().splitlines():
            click.echo(line.rstrip())


def _cell(value: object) -> Text:
    if isinstance(value, list):
        return Text("\n".join(map(one_line, value)))
    text = "–" if value is None else one_line(value)
    return Text(text, style=_STYLES.get(text, ""))


def _width(rows: Sequence[Sequence[object]], n: int) -> int:
    """How wide a column would be, if nothing in it were folded."""
    return max(max(map(cell_len, _cell(line[n]).plain.split("\n"))) for line in rows)


def _beside(widths: Iterable[int]) -> int:
    """How wide a table of such columns is."""
    return sum(width + GAP for width in widths) - GAP


def loaded(text: str) -> Any:
    """What a JSON text says; or the text, if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # of a schedule that was set aside for it, or its run
        return text
