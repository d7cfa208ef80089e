"""Makes the tables of a target equal to those of a source, and proves that they are."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tenure.backends.base.copying import CopiedTable, CopySide, Row
from tenure.errors import Conflict, StoreError, StoreUnavailable, TenureError

Write = Callable[[Callable[[], None]], None]
"""Runs this in a transaction of the target."""
PAGE = 500
"""Rows that are read and written at a time: others write in between."""
_WHOLE = 2**128


@dataclass
class Digest:
    """Of a set of rows, in any order."""

    rows: int = 0
    value: int = 0

    def add(self, rows: Iterable[Row]) -> None:
        for row in rows:
            found = hashlib.blake2b(repr(row).encode("utf-8", "surrogatepass"), digest_size=16)
            self.value = (self.value + int.from_bytes(found.digest())) % _WHOLE
            self.rows += 1

    def __str__(self) -> str:
        return f"{self.value:032x}"


def bring_closer(
    source: CopySide,
    target: CopySide,
    table: CopiedTable,
    write: Write,
    stepped: Callable[[int], None],
) -> None:
    """While the source is in use: copy what the target lacks or has otherwise, a page at a time.
    A row that contradicts an older one of the target is left out; `make_equal` comes after."""
    for page in source.pages(table, PAGE):
        changed, stale = _compared(target, table, page)
        if changed:
            _replace_all(target, table, changed, stale, write)
        stepped(len(page))


def make_equal(
    source: CopySide, target: CopySide, table: CopiedTable, stepped: Callable[[int], None]
) -> Digest:
    """The source no longer changes. All that differs is deleted before anything is inserted, so
    that no old row is in the way of a new one. Returns the source's digest."""
    digest, wanted, stale = Digest(), list[Row](), list[Row]()
    for page in source.pages(table, PAGE):
        digest.add(page)
        changed, old = _compared(target, table, page)
        wanted += [table.key_of(row) for row in changed]
        stale += old
        stepped(len(page))
    if digest.rows - len(wanted) != target.count(table.name) - len(stale):
        stale += _left_over(source, target, table)
    for keys in _chunks(stale):
        target.delete(table, keys)
    for keys in _chunks(wanted):
        target.insert(table, source.find(table, keys), lenient=False)
    return digest


def digest_of(
    side: CopySide, table: CopiedTable, stepped: Callable[[int], None] = lambda rows: None
) -> Digest:
    digest = Digest()
    for page in side.pages(table, PAGE):
        digest.add(page)
        stepped(len(page))
    return digest


def _compared(target: CopySide, table: CopiedTable, page: list[Row]) -> tuple[list[Row], list[Row]]:
    """The rows of this page that the target lacks or has otherwise, and the keys of the latter."""
    there = {table.key_of(row): row for row in target.find(table, [table.key_of(r) for r in page])}
    changed = [row for row in page if there.get(table.key_of(row)) != row]
    return changed, [key for row in changed if (key := table.key_of(row)) in there]


def _left_over(source: CopySide, target: CopySide, table: CopiedTable) -> list[Row]:
    """The keys of rows that the source no longer has."""
    found = []
    for page in target.pages(table, PAGE):
        keys = [table.key_of(row) for row in page]
        known = {table.key_of(row) for row in source.find(table, keys)}
        found += [key for key in keys if key not in known]
    return found


def _replace_all(
    target: CopySide, table: CopiedTable, rows: list[Row], stale: list[Row], write: Write
) -> None:
    def replace() -> None:
        if stale:
            target.delete(table, stale)
        target.insert(table, rows, lenient=True)

    try:
        write(replace)
    except (StoreUnavailable, Conflict):
        raise
    except TenureError as error:
        if len(rows) > 1:  # one of them is the cause: which?
            for row in rows:
                key = table.key_of(row)
                _replace_all(target, table, [row], [key] if key in stale else [], write)
            return
        key = table.key_of(rows[0])
        named = ", ".join(f"{k} {v!r}" for k, v in zip(table.key, key, strict=True))
        raise StoreError(
            f"a row of table {table.name} ({named}) cannot be stored in {target.location}: {error}"
            " The doctor names damaged rows (`doctor --url SOURCE`). Repair or delete it, then run"
            " this again."
        ) from error


def _chunks(keys: Sequence[Row]) -> Iterable[Sequence[Row]]:
    return (keys[start : start + PAGE] for start in range(0, len(keys), PAGE))
