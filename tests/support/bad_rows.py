"""Spoils rows of any table of a SQL store. Tables and columns are taken from the schema itself, so
that those of a later migration are covered too."""

from __future__ import annotations

import random
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.support import bad_values

ANYTHING = object()
_NAMES = {
    "schedule": "name",
    "run": "schedule",
    "event": "topic",
    "event_group": "name",
    "relay": "name",
    "relay_lane": "relay",
    "relay_parked": "relay",
}
"""By table, the column that says whose a row is."""


@dataclass(frozen=True, slots=True)
class Column:
    table: str
    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Damage:
    """A value that was put into a row, as it is stored, and what was there."""

    column: Column
    row: Any
    what: str
    stored: Any
    before: Any

    def __str__(self) -> str:
        return f"{self.column.table}.{self.column.name} = {self.what}"


class Spoiler(ABC):
    """A connection of somebody who may write anything anywhere."""

    connection: Any
    prefix: str
    refusals: tuple[type[Exception], ...] = ()
    spared = "good"
    """The schedule, topic, group and relay that nothing is to happen to."""

    def besides(self, table: str) -> str:
        column = _NAMES.get(table.removeprefix(self.prefix))
        return f"WHERE {column} <> '{self.spared}'" if column else ""

    @abstractmethod
    def columns(self) -> list[Column]: ...

    @abstractmethod
    def values_for(self, column: Column) -> dict[str, Any]: ...

    @abstractmethod
    def rows(self, table: str) -> list[Any]:
        """What finds each row of a table again, whatever becomes of its columns."""

    @abstractmethod
    def get(self, column: Column, row: Any) -> Any: ...

    @abstractmethod
    def put(self, column: Column, row: Any, value: Any, instead_of: Any = ANYTHING) -> Any:
        """Returns what finds the row from now on. Raises one of `refusals` if the store will not
        have it. With `instead_of`, only where just that is stored."""

    @abstractmethod
    def is_wrong(self, column: Column, value: Any) -> bool:
        """Can that never be there? In doubt no: a number may be wrong, and looks like any other."""

    def damages(self, rng: random.Random, without: Collection[str] = ()) -> Iterator[Damage]:
        """For ever, as long as the store accepts them; tables in turn, but not those `without`."""
        by_table: dict[str, list[Column]] = {}
        for column in self.columns():
            if column.table.removeprefix(self.prefix) not in without:
                by_table.setdefault(column.table, []).append(column)
        while True:
            for table in sorted(by_table, key=lambda _: rng.random()):
                damage = self._damage(rng.choice(by_table[table]), rng)
                if damage is not None:
                    yield damage

    def _damage(self, column: Column, rng: random.Random) -> Damage | None:
        rows = self.rows(column.table)
        if not rows:
            return None
        values = self.values_for(column)
        what = rng.choice(sorted(values))
        # One step of `rng`, however many rows there are by now: a seed means the same again.
        row = rows[int(rng.random() * len(rows))]
        return self.spoil(column, row, what, values[what])

    def spoil(self, column: Column, row: Any, what: str, value: Any) -> Damage | None:
        """None if the store refused."""
        before = self.get(column, row)
        try:
            row = self.put(column, row, value)
        except self.refusals:
            return None
        return Damage(column, row, what, self.get(column, row), before)

    def mend(self, damage: Damage) -> None:
        """Put back what was there, unless somebody has written there since: then that is true."""
        with suppress(*self.refusals):  # another row has its key by now
            self.put(damage.column, damage.row, damage.before, instead_of=damage.stored)

    def close(self) -> None:
        self.connection.close()


class SQLiteSpoiler(Spoiler):
    """Whatever is bound is stored, with text that is not UTF-8 too."""

    prefix = "tenure_"
    refusals: tuple[type[Exception], ...] = (
        sqlite3.IntegrityError,
        sqlite3.OperationalError,
        sqlite3.DataError,
        OverflowError,
    )

    def __init__(self, path: Path) -> None:
        self.connection: sqlite3.Connection = sqlite3.connect(
            path, isolation_level=None, timeout=20
        )
        self.connection.text_factory = bytes
        self._keys: dict[str, list[str]] = {}

    def columns(self) -> list[Column]:
        tables = self.connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'tenure_%'"
        ).fetchall()
        found = []
        for (raw,) in tables:
            table = raw.decode()
            info = self.connection.execute(f"PRAGMA table_info({table})").fetchall()
            self._keys[table] = [c[1].decode() for c in sorted(info, key=lambda c: c[5]) if c[5]]
            found += [Column(table, c[1].decode(), c[2].decode()) for c in info]
        return found

    def values_for(self, column: Column) -> dict[str, Any]:
        as_text = {f"text-of-{name}": _Text(v) for name, v in bad_values.BYTES.items()}
        return bad_values.ANYTHING | as_text

    def rows(self, table: str) -> list[Any]:
        keys = ", ".join(self._keys[table])
        return [
            tuple(_Text(v) if isinstance(v, bytes) and kind == b"text" else v for v, kind in pairs)
            for pairs in (
                list(zip(row[::2], row[1::2], strict=True))
                for row in self.connection.execute(
                    f"SELECT {', '.join(f'{k}, typeof({k})' for k in self._keys[table])}"
                    f" FROM {table} {self.besides(table)} ORDER BY {keys}"
                )
            )
        ]

    def get(self, column: Column, row: Any) -> Any:
        where, values = self._where(column.table, row)
        found = self.connection.execute(
            f'SELECT "{column.name}", typeof("{column.name}") FROM {column.table} WHERE {where}',
            values,
        ).fetchone()
        if found is None:
            return None
        return _Text(found[0]) if found[1] == b"text" else found[0]

    def put(self, column: Column, row: Any, value: Any, instead_of: Any = ANYTHING) -> Any:
        where, values = self._where(column.table, row)
        if instead_of is not ANYTHING:
            stored, *bound = _bound(instead_of)
            where, values = f'{where} AND "{column.name}" IS {stored}', [*values, *bound]
        new, *bound = _bound(value)
        self.connection.execute(
            f'UPDATE {column.table} SET "{column.name}" = {new} WHERE {where}', [*bound, *values]
        )
        keys = self._keys[column.table]
        return tuple(value if k == column.name else v for k, v in zip(keys, row, strict=True))

    def is_wrong(self, column: Column, value: Any) -> bool:
        if value is None:
            return False
        if column.kind == "TEXT":
            return not isinstance(value, _Text)
        return column.kind in ("INTEGER", "REAL") and isinstance(value, _Text | bytes)

    def _where(self, table: str, row: Any) -> tuple[str, list[Any]]:
        terms, values = [], []
        for key, value in zip(self._keys[table], row, strict=True):
            new, *bound = _bound(value)
            terms.append(f'"{key}" IS {new}')
            values += bound
        return " AND ".join(terms), values


class _Text(bytes):
    """Stored as text, whatever its bytes are."""


def _bound(value: Any) -> list[Any]:
    return ["CAST(? AS TEXT)", bytes(value)] if isinstance(value, _Text) else ["?", value]


class PostgresSpoiler(Spoiler):
    """The server sees to the types; what is left are the ends of each."""

    prefix = ""
    refusals: tuple[type[Exception], ...] = (psycopg.Error,)

    def __init__(self, url: str) -> None:
        self.connection: psycopg.Connection[Any] = psycopg.connect(url, autocommit=True)
        self._keys: dict[str, list[str]] = {}

    def columns(self) -> list[Column]:
        rows = self.connection.execute(
            """SELECT c.table_name, c.column_name, c.data_type FROM information_schema.columns c
            JOIN information_schema.tables t USING (table_schema, table_name)
            WHERE t.table_schema = 'tenure' AND t.table_type = 'BASE TABLE'"""
        )
        return [Column(*row) for row in rows]

    def values_for(self, column: Column) -> dict[str, Any]:
        match column.kind:
            case "bigint":
                return {**bad_values.integers()}
            case "integer":
                return {**bad_values.integers(32)}
            case "double precision":
                return {**bad_values.FLOATS}
            case "boolean":
                return {"true": True, "false": False}
            case "timestamp with time zone":
                return {**bad_values.MOMENTS, "null": None}
        return {**bad_values.texts(), "null": None}

    def rows(self, table: str) -> list[Any]:
        # By their keys. A ctid is another row's as soon as the server has room to use it again.
        keys = ", ".join(f"{key}::text" for key in self._keys_of(table))
        return self.connection.execute(
            f"SELECT {keys} FROM tenure.{table} {self.besides(table)} ORDER BY {keys}"
        ).fetchall()

    def get(self, column: Column, row: Any) -> Any:
        found = self.connection.execute(
            f'SELECT "{column.name}"::text FROM tenure.{column.table} {self._where(column.table)}',
            row,
        ).fetchone()
        return found and found[0]

    def put(self, column: Column, row: Any, value: Any, instead_of: Any = ANYTHING) -> Any:
        where, values = self._where(column.table), [value, *row]
        if instead_of is not ANYTHING:
            where += f' AND "{column.name}"::text IS NOT DISTINCT FROM %s'
            values.append(instead_of)
        keys = self._keys_of(column.table)
        found = self.connection.execute(
            f'UPDATE tenure.{column.table} SET "{column.name}" = %s::{column.kind} {where}'
            f" RETURNING {', '.join(f'{key}::text' for key in keys)}",
            values,
        ).fetchone()
        return found or row

    def _where(self, table: str) -> str:
        return "WHERE " + " AND ".join(f"{key}::text = %s" for key in self._keys_of(table))

    def _keys_of(self, table: str) -> list[str]:
        if table not in self._keys:
            found = self.connection.execute(
                """SELECT quote_ident(a.attname) FROM pg_index i
                JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
                WHERE i.indrelid = %s::regclass AND i.indisprimary ORDER BY a.attnum""",
                (f"tenure.{table}",),
            )
            self._keys[table] = [key for (key,) in found]
        return self._keys[table]

    def is_wrong(self, column: Column, value: Any) -> bool:
        if column.kind == "double precision":
            return value in ("Infinity", "-Infinity", "NaN")
        if column.kind == "timestamp with time zone" and value is not None:
            return value in ("infinity", "-infinity") or value.endswith("BC") or value[4] != "-"
        return False
