"""A SQLite store as a source or target of `tenure copy`.

The barrier is made of triggers: they are a part of the file, so every program that writes to it
obeys them, however old it is. SQLite changes its schema within transactions, so the barrier can be
lifted for the copier's own writes and be back before anyone else has the write lock.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from tenure.backends.base.copying import (
    MOST_TERM,
    NO_DATA,
    REFUSED,
    Barrier,
    CopiedTable,
    CopyMark,
    Role,
    Row,
    Value,
)
from tenure.backends.shared import copy_marks
from tenure.backends.shared.numbering import is_number
from tenure.backends.sqlite.connection import translate
from tenure.backends.urls import of_sqlite

T = TypeVar("T")
PREFIX = "tenure_"
PATIENCE = 60.0
_BARRIER = "tenure_barrier_"
_COMPUTED = {
    ("occurrence", "namespace"): (
        "(SELECT s.namespace FROM tenure_schedule s WHERE s.uid = t.schedule_uid)"
    )
}
"""Columns that other stores have, and this one can tell."""
_COUNTED_KINDS = {"planned", "backfill"}
"""Occurrences whose key is a time: a number here, a text in the form that stores share."""
_TABLES = (
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'tenure_*' ORDER BY name"
)
_TERMS = """
SELECT namespace, max(term) FROM (
    SELECT namespace, term FROM tenure_lease UNION ALL
    SELECT namespace, term FROM tenure_lease_history UNION ALL
    SELECT namespace, term FROM tenure_lease_floor UNION ALL
    SELECT namespace, term FROM tenure_fence UNION ALL
    SELECT DISTINCT namespace, 0 FROM tenure_schedule UNION ALL
    SELECT DISTINCT namespace, 0 FROM tenure_run UNION ALL
    SELECT DISTINCT namespace, 0 FROM tenure_event
) WHERE typeof(term) = 'integer' AND term <= ? GROUP BY namespace
"""
_TAKE = """
INSERT INTO tenure_fence (namespace, scope, term, holder) VALUES (?, ?, ?, ?)
ON CONFLICT (namespace, scope) DO UPDATE SET term = excluded.term, holder = excluded.holder
"""
_FLOOR = """
INSERT INTO tenure_lease_floor (namespace, term) VALUES (?, ?)
ON CONFLICT (namespace) DO UPDATE SET term = excluded.term
"""


class SQLiteCopySide:
    """One connection to one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._barrier_was: list[str] = []
        with self._guarded():
            self._c = sqlite3.connect(
                f"{path.as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=PATIENCE
            )
            self._c.execute("PRAGMA synchronous = FULL")

    @property
    def location(self) -> str:
        return of_sqlite(self._path)

    def close(self) -> None:
        self._c.close()

    def write(self, work: Callable[[], T]) -> T:
        with self._guarded():
            self._c.execute("BEGIN IMMEDIATE")
            try:
                self._lift()
                result = work()
                self._restore()
                self._c.execute("COMMIT")
            except BaseException:
                if self._c.in_transaction:
                    self._c.execute("ROLLBACK")
                raise
            return result

    def check_rights(self) -> None:
        with self._guarded():
            self._c.execute("BEGIN IMMEDIATE")  # refused for a file that this user may only read
            self._c.execute("ROLLBACK")

    def tables(self) -> dict[str, CopiedTable]:
        found = {}
        for full in self._all_tables():
            name = full.removeprefix(PREFIX)
            if name in NO_DATA:
                continue
            rows = self._rows(f'PRAGMA table_info("{full}")')
            columns = {str(row[1]) for row in rows} | {c for t, c in _COMPUTED if t == name}
            keys = sorted((row[5], str(row[1])) for row in rows if row[5])
            found[name] = CopiedTable(name, tuple(sorted(columns)), tuple(k for _, k in keys))
        return found

    def count(self, table: str) -> int:
        return self._number(f'SELECT count(*) FROM "{PREFIX}{table}"')  # noqa: S608 - our own names

    def pages(self, table: CopiedTable, size: int) -> Iterator[list[Row]]:
        keys = ", ".join(f't."{key}"' for key in table.key)
        marks = ", ".join("?" for _ in table.key)
        # The key once more, as it is stored: that is what the next page begins after.
        text = f'SELECT {_list(table)}, {keys} FROM "{PREFIX}{table.name}" t'  # noqa: S608
        order, width = f" ORDER BY {keys} LIMIT {size}", len(table.columns)
        page = self._rows(text + order)
        while page:
            yield [row[:width] for row in page]
            after = page[-1][width:]
            page = self._rows(f"{text} WHERE ({keys}) > ({marks}){order}", after)

    def find(self, table: CopiedTable, keys: Sequence[Row]) -> list[Row]:
        text = f'SELECT {_list(table)} FROM json_each(?) k CROSS JOIN "{PREFIX}{table.name}" t'  # noqa: S608
        return self._rows(f"{text} WHERE {_by_key(table)}", (self._given(table, keys),))

    def insert(self, table: CopiedTable, rows: Sequence[Row], *, lenient: bool) -> None:
        columns = [c for c in table.columns if (table.name, c) not in _COMPUTED]
        names, marks = ", ".join(f'"{c}"' for c in columns), ", ".join("?" for _ in columns)
        verb = "INSERT OR IGNORE" if lenient else "INSERT"
        text = f'{verb} INTO "{PREFIX}{table.name}" ({names}) VALUES ({marks})'
        with self._guarded():
            self._c.executemany(text, (_stored(table, columns, row) for row in rows))

    def delete(self, table: CopiedTable, keys: Sequence[Row]) -> None:
        names = ", ".join(f'"{key}"' for key in table.key)
        each = ", ".join(f"json_extract(k.value, '$[{n}]')" for n in range(len(table.key)))
        text = f'DELETE FROM "{PREFIX}{table.name}" WHERE ({names}) IN (SELECT {each} FROM json_each(?) k)'  # noqa: E501, S608
        self._rows(text, (self._given(table, keys),))

    def empty(self, table: str) -> None:
        self._rows(f'DELETE FROM "{PREFIX}{table}"')  # noqa: S608

    def mark(self, role: Role) -> CopyMark | None:
        query = "SELECT value FROM tenure_meta WHERE key = ?"
        rows = self._rows(query, (copy_marks.key_of(role),))
        return copy_marks.read(str(rows[0][0])) if rows else None

    def set_mark(self, role: Role, mark: CopyMark | None) -> None:
        key = copy_marks.key_of(role)
        self._rows("DELETE FROM tenure_meta WHERE key = ?", (key,))
        if mark is not None:
            self._rows("INSERT INTO tenure_meta VALUES (?, ?)", (key, copy_marks.written(mark)))

    def refuse(self, barrier: Barrier, scope: str, text: str) -> None:
        message, only = _quoted(REFUSED + text), ""
        tables, verbs = self._all_tables(), ["INSERT", "UPDATE", "DELETE"]
        if barrier == "fence":
            tables, verbs = ["tenure_fence"], ["INSERT", "UPDATE"]
            only = f" WHEN NEW.scope = {_quoted(scope)}"
        self._barrier_was = [
            f'CREATE TRIGGER "{_BARRIER}{table}_{verb.lower()}" BEFORE {verb} ON "{table}"{only}'
            f" BEGIN SELECT RAISE(ABORT, {message}); END"
            for table in tables
            for verb in verbs
        ]

    def admit(self) -> None:
        self._barrier_was = []

    def take_office(self, scope: str, holder: str) -> int:
        greatest = 0
        for namespace, term in self._rows(_TERMS, (MOST_TERM,)):
            assert isinstance(term, int)
            self._rows(_TAKE, (namespace, scope, term + 1, holder))
            self._rows(_FLOOR, (namespace, term + 1))
            greatest = max(greatest, term + 1)
        return greatest

    def claimed(self) -> int:
        return self._number("SELECT count(*) FROM tenure_run WHERE state = 'claimed'")

    def uneven(self) -> list[str]:
        return []

    def place_events(self, scope: str) -> None:
        """Does nothing: events get their positions when they are stored."""

    def counters(self) -> dict[str, int]:
        rows = self._rows("SELECT name, seq FROM sqlite_sequence WHERE name GLOB 'tenure_*'")
        return {str(n).removeprefix(PREFIX): seq for n, seq in rows if is_number(seq)}

    def raise_counters(self, counters: dict[str, int]) -> None:
        for table, number in counters.items():
            full = PREFIX + table
            known = "SELECT 1 FROM sqlite_master WHERE name = ? AND sql LIKE '%AUTOINCREMENT%'"
            if not self._rows(known, (full,)):
                continue  # it goes by the rows that are there
            own = self.counters().get(table, 0)
            self._rows("DELETE FROM sqlite_sequence WHERE name = ?", (full,))
            self._rows("INSERT INTO sqlite_sequence VALUES (?, ?)", (full, max(own, number)))

    def _lift(self) -> None:
        """Take the triggers away, until `_restore`."""
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND name GLOB ?"
        there = self._rows(query, (f"{_BARRIER}*",))
        self._barrier_was = [str(text) for _, text in there]
        for name, _ in there:
            self._rows(f'DROP TRIGGER "{name}"')

    def _restore(self) -> None:
        for text in self._barrier_was:
            self._rows(text)

    def _all_tables(self) -> list[str]:
        return [str(name) for (name,) in self._rows(_TABLES)]

    def _given(self, table: CopiedTable, keys: Sequence[Row]) -> str:
        return json.dumps([_stored(table, list(table.key), key, table.key) for key in keys])

    def _number(self, query: str) -> int:
        ((number,),) = self._rows(query)
        assert isinstance(number, int)
        return number

    def _rows(self, query: str, values: Sequence[Value] = ()) -> list[Row]:
        with self._guarded():
            return self._c.execute(query, values).fetchall()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            translate(error, self._path)


def _list(table: CopiedTable) -> str:
    return ", ".join(_shared(table.name, column) for column in table.columns)


def _shared(table: str, column: str) -> str:
    if (table, column) in _COMPUTED:
        return _COMPUTED[table, column]
    return f'CAST(t."{column}" AS TEXT)' if _has_times(table, column) else f't."{column}"'


def _has_times(table: str, column: str) -> bool:
    """Has this column numbers for some kinds and texts for others?"""
    return column == "key" and table in ("occurrence", "run")


def _stored(
    table: CopiedTable, columns: list[str], row: Row, given: tuple[str, ...] | None = None
) -> tuple[Value, ...]:
    """The values of these columns as they are stored here."""
    values = dict(zip(given or table.columns, row, strict=True))
    key = values.get("key")
    if _has_times(table.name, "key") and values.get("kind") in _COUNTED_KINDS and key is not None:
        values["key"] = int(key)
    return tuple(values[column] for column in columns)


def _by_key(table: CopiedTable) -> str:
    return " AND ".join(
        f"t.\"{key}\" = json_extract(k.value, '$[{n}]')" for n, key in enumerate(table.key)
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
