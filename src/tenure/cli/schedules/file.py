"""Many schedules from a file of JSON lines.

The file is read twice: once to check every line, once to store them. So a file of a million lines
takes the memory of its names, and a wrong line at its end leaves nothing stored.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from tenure.cli.code import Code, unknown_tasks
from tenure.cli.errors import Failed
from tenure.cli.opened import Opened
from tenure.cli.output import print_json, say
from tenure.cli.policies import event_of
from tenure.cli.progress import Progress
from tenure.cli.store import Store
from tenure.errors import ConfigError, Conflict
from tenure.process.clock import SystemClock
from tenure.schedules.drafts import NewSchedule, new_schedule
from tenure.triggers import Trigger, parse
from tenure.words import count

PORTION = 2_500
SHOWN = 20
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Import:
    """What was asked for."""

    store: Store
    code: Code
    path: Path
    skip_existing: bool
    dry_run: bool
    as_json: bool


@dataclass(slots=True)
class _Checked:
    """What the first reading found."""

    lines: dict[str, int] = field(default_factory=dict)
    """The line of each name."""
    tasks: set[str] = field(default_factory=set)
    existing: set[str] = field(default_factory=set)


def add_file(wanted: Import) -> None:
    if str(wanted.path) == "-":
        with tempfile.TemporaryDirectory() as folder:
            kept = Path(folder) / "stdin"
            with kept.open("w", encoding="utf-8") as file:
                shutil.copyfileobj(sys.stdin, file)
            _add(wanted, kept)
    else:
        _add(wanted, wanted.path)


def _add(wanted: Import, path: Path) -> None:
    checked = _check(wanted, path)

    async def act(opened: Opened) -> tuple[int, str | None]:
        checked.existing = await _existing(opened, checked)
        if checked.existing and not wanted.skip_existing:
            raise Failed(_taken(checked))
        _, warning = await unknown_tasks(opened, checked.tasks)
        if wanted.dry_run:
            return len(checked.lines) - len(checked.existing), warning
        return await _store(wanted, path, checked, opened), warning

    added, warning = wanted.store.ask(act, within=None)
    if warning and added:
        say(f"Warning: {warning}", err=True)
    if wanted.as_json:
        print_json({"added": added, "existing": len(checked.existing), "dry_run": wanted.dry_run})
        return
    verb = "could be added; nothing was stored (--dry-run)" if wanted.dry_run else "added"
    left_out = f"; {len(checked.existing):,} existed already" if checked.existing else ""
    say(f"{count(added, 'schedule')} {verb}{left_out}.")


def _check(wanted: Import, path: Path) -> _Checked:
    """Every line, before a store is opened."""
    checked, wrong, now = _Checked(), list[str](), SystemClock().now()
    with Progress("Checking", path.stat().st_size, quiet=wanted.as_json, unit="bytes") as progress:
        for number, line in _lines(path):
            progress.step(len(line.encode()))
            try:
                new = _parsed(line)
                wanted.code.drafts.addition(new, now)
                first = checked.lines.setdefault(new.name, number)
                if first != number:
                    raise ConfigError(f"line {first} has the same name {new.name!r}")
                if new.emit is None:
                    checked.tasks.add(str(new.task))
            except ConfigError as error:
                wrong.append(f"line {number}: {error}")
    if wrong:
        for text in wrong[:SHOWN]:
            say(text, err=True)
        if len(wrong) > SHOWN:
            say(f"… and {len(wrong) - SHOWN:,} more", err=True)
        raise Failed(f"{count(len(wrong), 'line')} of {path} cannot be added. Nothing was stored.")
    return checked


async def _existing(opened: Opened, checked: _Checked) -> set[str]:
    found: set[str] = set()
    for names in _portions(checked.lines, PORTION):
        found |= (await opened.schedules.find(names)).keys()
    return found


async def _store(wanted: Import, path: Path, checked: _Checked, opened: Opened) -> int:
    added, total = 0, len(checked.lines) - len(checked.existing)
    fresh = ((n, _parsed(line)) for n, line in _lines(path))
    with Progress("Adding", total, quiet=wanted.as_json, unit="schedules") as progress:
        kept = ((n, new) for n, new in fresh if new.name not in checked.existing)
        for portion in _portions(kept, PORTION):
            now = await opened.now()
            changes = [wanted.code.drafts.addition(new, now) for _, new in portion]
            try:
                await opened.editor().land(changes)
            except Conflict as error:
                raise Failed(
                    f"lines {portion[0][0]} to {portion[-1][0]}: {error} It was added"
                    f" meanwhile. {added:,} schedules before these lines are stored; the same"
                    " command with --skip-existing continues from there."
                ) from error
            added += len(portion)
            progress.step(len(portion))
    return added


def _taken(checked: _Checked) -> str:
    first = sorted(checked.existing, key=checked.lines.__getitem__)[:5]
    named = ", ".join(f"{name!r} (line {checked.lines[name]})" for name in first)
    return (
        f"{count(len(checked.existing), 'schedule')} of this file exist already: {named}"
        f"{' …' if len(checked.existing) > 5 else ''}. Nothing was stored; --skip-existing leaves"
        " them out."
    )


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, line
    except UnicodeDecodeError as error:
        raise Failed(f"{path} is not UTF-8 text: {error}. Nothing was stored.") from error


def _parsed(line: str) -> NewSchedule:
    """The schedule of a line; `ConfigError` says what is wrong with it."""
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"it is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise ConfigError(f"it is not a JSON object: {line.strip()[:80]}")
    for name in ("name", "trigger", *(() if "emit" in given else ("task",))):
        if name not in given:
            raise ConfigError(f"it has no {name!r}")
    for name, kind in (("name", str), ("task", str), ("kwargs", dict), ("emit", dict)):
        if name in given and not isinstance(given[name], kind):
            raise ConfigError(f"its {name!r} is {given[name]!r}, which is not {_KINDS[kind]}")
    if "emit" in given:
        given["emit"] = event_of(given["emit"])
    return new_schedule(given | {"trigger": _trigger(given["trigger"])})


_KINDS: dict[type, str] = {str: "a text", dict: "an object"}


def _trigger(given: Any) -> Trigger:
    if isinstance(given, str):
        return parse(given)
    if isinstance(given, dict):
        return parse(json.dumps(given))
    raise ConfigError(f"its trigger {given!r} is neither a text such as 'every 5m' nor an object")


def _portions(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while portion := list(islice(rest, size)):
        yield portion
