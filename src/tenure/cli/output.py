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

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tenure.printable import lines, one_line

NARROW = 100
PIPED = 240
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
    """JSON, and nothing that a terminal obeys, nor what JSON does not have."""
    text = json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False)
    click.echo("".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in text))


def _plain(value: object, depth: int = 0) -> object:
    """What JSON has. A number that is none is null; as text is what somebody put into a row by
    hand, such as bytes."""
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


def span(seconds: float) -> str:
    """A length of time in at most two units: 0.4s, 12s, 3m 5s, 2h 10m, 4d 3h."""
    if seconds < 1:
        return f"{seconds:.1f}s" if seconds >= 0.05 else "0s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    for name, size, smaller, part in (
        ("m", 60, "s", 1),
        ("h", 3600, "m", 60),
        ("d", 86_400, "h", 3600),
    ):
        if whole < size * {"m": 60, "h": 48, "d": 10**9}[name]:
            rest = whole % size // part
            return f"{whole // size}{name} {rest}{smaller}" if rest else f"{whole // size}{name}"
    raise AssertionError(seconds)


def relative(moment: datetime, now: datetime) -> str:
    """3m ago, in 12s, now."""
    distance = (moment - now).total_seconds()
    if abs(distance) < 0.05:
        return "now"
    return f"in {span(distance)}" if distance > 0 else f"{span(-distance)} ago"


def when(moment: datetime | None, now: datetime) -> str:
    """Local time with its distance from now; the date only if it is another day."""
    if moment is None:
        return "–"
    local, today = moment.astimezone(), now.astimezone()
    text = f"{local:%H:%M:%S}" if local.date() == today.date() else f"{local:%Y-%m-%d %H:%M:%S}"
    return f"{text} ({relative(moment, now)})"


def exactly(moment: datetime | None, now: datetime) -> str:
    """The same with date and time zone: for pages about one thing."""
    if moment is None:
        return "–"
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S %Z} ({relative(moment, now)})"


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def short(node: str | None) -> str | None:
    """A node for listings: host and pid tell it apart, the random part is for the whole id."""
    return None if node is None else node.rpartition(":")[0] or node


class Page:
    """Writes to the terminal: in its width and colours, or wide and plain if it is none."""

    def __init__(self) -> None:
        wide = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else PIPED
        self.console = Console(width=wide, markup=False, highlight=False, emoji=False)

    @property
    def narrow(self) -> bool:
        return self.console.width < NARROW

    def line(self, text: str = "", style: str | None = None) -> None:
        self._write(one_line(text), style)

    def text(self, text: str) -> None:
        """Somebody's text of many lines, indented: none of them can pass for one of ours."""
        for line in lines(text).split("\n"):
            self._write(f"  {line}".rstrip())

    def _write(self, text: str, style: str | None = None) -> None:
        self.console.print(text, style=style, soft_wrap=not self.console.is_terminal)

    def table(
        self, columns: Sequence[str], rows: Iterable[Sequence[object]], empty: str = "None."
    ) -> None:
        """A column whose title begins with + is left out if the terminal is narrow, or if it
        would be empty. A list is shown as lines, one below the other."""
        rows = list(rows)
        if not rows:
            self.line(empty)
            return
        shown = [
            n
            for n, title in enumerate(columns)
            if not title.startswith("+")
            or (not self.narrow and any(line[n] is not None for line in rows))
        ]
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for n in shown:
            # Nothing is cut off: names are copied from here into the next command. The first
            # column has them, and is the last to be folded.
            longest = max(max(map(len, _cell(line[n]).plain.split("\n"))) for line in rows)
            least = min(longest, self.console.width * 2 // 5) if n == 0 else None
            table.add_column(columns[n].lstrip("+"), overflow="fold", min_width=least)
        for line in rows:
            table.add_row(*(_cell(line[n]) for n in shown))
        self._print(table)

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
