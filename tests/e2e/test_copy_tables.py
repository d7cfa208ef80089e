"""Every table and every column comes over, in both directions: those of later migrations too.

Rows are made up from the schema itself, so a table that is added, and that `tenure copy` cannot
carry over, fails here.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tenure.backends.base import CopySide
from tenure.backends.base.copying import UNCOPIED, CopiedTable, Row, Value
from tenure.backends.postgres import PostgresBackend
from tenure.backends.sqlite import SQLiteBackend
from tenure.copying.copier import MOVED, Copier
from tenure.copying.preflight import plan
from tenure.copying.transfer import Digest, digest_of
from tenure.errors import Conflict, StoreError
from tests.support.servers import PostgresServer

ROWS = 40
NOW = 1_790_000_000_000_003
COLUMNS = """
SELECT table_name, column_name, data_type, is_nullable = 'YES' FROM information_schema.columns
WHERE table_schema = 'tenure'
"""


class Made:
    """Made-up rows for any table."""

    def __init__(self, url: str) -> None:
        with psycopg.connect(url) as connection:
            rows = connection.execute(COLUMNS).fetchall()
        self._columns = {(table, column): (kind, null) for table, column, kind, null in rows}

    def row(self, table: CopiedTable, n: int) -> Row:
        return tuple(self._value(table, column, n) for column in table.columns)

    def _value(self, table: CopiedTable, column: str, n: int) -> Value:
        kind, nullable = self._columns[table.name, column]
        if column == "kind":
            return ("planned", "manual", "backfill", "enqueued")[n % 4]
        if column == "key" and table.name in ("run", "occurrence"):
            return str(NOW + n) if n % 2 == 0 else f"{n}"
        if column == "namespace":
            return f"space {n if table.key == ('namespace',) else n % 2}"
        if nullable and n % 3 == 0 and column not in ("position", "lock"):
            return None
        match kind:
            case "text":
                return f"{column} ü {n}" if n % 5 else f"'{column}' %s {{}} \\ {n}"
            case "double precision":
                return n + 0.1
            case "boolean":
                return n % 2
            case "timestamp with time zone":
                return NOW + n * 86_400_000_001
            case "bigint" | "integer" | "smallint":
                return n + 1
        raise AssertionError(f"{table.name}.{column}: this test knows no {kind}")


@pytest.fixture
def empty(postgres: PostgresServer) -> str:
    url = postgres.create_database("copy")
    opened(PostgresBackend(url)).close()
    return url


def opened(backend: PostgresBackend | SQLiteBackend) -> CopySide:
    async def prepare() -> None:
        await backend.open()
        await backend.close()

    asyncio.run(prepare())
    return backend.copy_side()


@pytest.fixture
def full(postgres: PostgresServer, empty: str) -> Iterator[CopySide]:
    """A PostgreSQL store with rows in every table."""
    side, made = PostgresBackend(empty).copy_side(), Made(empty)

    def fill() -> None:
        for table in plan(side, None).tables:
            side.insert(table, [made.row(table, n) for n in range(ROWS)], lenient=False)
        side.raise_counters({"schedule": 1_000, "run": 2_000})

    with closing(side):
        side.write(fill)
        yield side


def digests(side: CopySide) -> dict[str, Digest]:
    return {table.name: digest_of(side, table) for table in plan(side, None).tables}


def test_all_tables_come_over_and_back(
    full: CopySide, tmp_path: Path, postgres: PostgresServer
) -> None:
    file = opened(SQLiteBackend(tmp_path / "copy.db"))
    again = opened(PostgresBackend(postgres.create_database("again")))
    with closing(file), closing(again):
        Copier(full, file, drain=0).run()
        first = digests(full)
        assert all(digest.rows >= ROWS for digest in first.values())
        assert digests(file) == first
        with closing(sqlite3.connect(tmp_path / "copy.db")) as c, c:
            kinds = "SELECT DISTINCT kind, typeof(key) FROM tenure_occurrence ORDER BY kind"
            assert [tuple(row) for row in c.execute(kinds)] == [
                ("backfill", "integer"),
                ("enqueued", "text"),
                ("manual", "text"),
                ("planned", "integer"),
            ]
        c.close()
        Copier(file, again, drain=0).run()
        last = digests(again)
        # The second copier took office, too; all else is as it was.
        for table in ("fence", "lease_floor"):
            del first[table], last[table]
        assert last == first
        assert again.counters() == file.counters() | {"event": again.counters()["event"]}
        assert full.counters()["schedule"] == again.counters()["schedule"] == 1_000


def test_stores_have_the_same_tables(full: CopySide, tmp_path: Path) -> None:
    with closing(opened(SQLiteBackend(tmp_path / "copy.db"))) as file:
        ours, theirs = file.tables(), full.tables()
    for name in (ours.keys() | theirs.keys()) - UNCOPIED:
        assert ours.get(name) == theirs.get(name), name


def test_a_difference_is_found_before_the_target_is_complete(
    full: CopySide, tmp_path: Path
) -> None:
    path = tmp_path / "copy.db"
    with closing(opened(SQLiteBackend(path))) as file:

        def spoil(step: str) -> None:
            if step == MOVED:  # an imaginary defect: a trigger of the target changes what comes
                with closing(sqlite3.connect(path)) as c, c:
                    c.execute(
                        "CREATE TRIGGER oops AFTER INSERT ON tenure_run BEGIN"
                        " UPDATE tenure_run SET result = 'other' WHERE id = NEW.id; END"
                    )
                c.close()
                file.write(lambda: file.empty("run"))

        with pytest.raises(StoreError, match=r"table run differs: 40 rows, digest \w+, in post"):
            Copier(full, file, drain=0, told=spoil).run()
        mark = file.mark("target")
        assert mark is not None
        assert mark.phase == "copying"


def test_a_target_that_is_not_empty_is_refused(full: CopySide, tmp_path: Path) -> None:
    with closing(opened(SQLiteBackend(tmp_path / "copy.db"))) as file:
        for _ in range(2):
            with pytest.raises(Conflict, match=r"not empty: attempt \(40 rows\), .*run \(40 rows"):
                Copier(file, full, drain=0).run()
        assert full.mark("target") is None
        assert file.mark("source") is None
