"""A PostgreSQL store as a source or target of `tenure copy`.

The barrier is made of triggers, which every client obeys, however old it is. Creating them waits
for transactions that write, and nothing can be written between that and the commit. A setting of
the copier's own transactions lets them pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

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
from tenure.backends.postgres.connections.session import PATH
from tenure.backends.postgres.errors import translate
from tenure.backends.postgres.statements import PACKAGE, literal, quoted, statements
from tenure.backends.shared import copy_marks
from tenure.backends.shared.numbering import NUMBERS, is_number
from tenure.backends.shared.sql import load
from tenure.errors import StoreError, StoreUnavailable
from tenure.process.clock import SystemClock, from_micros

T = TypeVar("T")
PATIENCE, PAUSE = 60.0, 0.5
"""How many seconds to try to get all locks, and to pause after each attempt: others wait behind
one that waits."""
PARTITIONS = 16
PLACED = 1000
"""So many events get their positions by one statement."""
_LOCKED = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)
_DERIVED = {("event", "partition"), ("event_group", "partition")}
"""Columns that follow from the others."""
_KINDS = {
    "text": "text",
    "bigint": "bigint",
    "integer": "bigint",
    "smallint": "bigint",
    "double precision": "double precision",
    "boolean": "boolean",
    "timestamp with time zone": "timestamptz",
}
_sql = load(PACKAGE, "sql/copying.sql")
META = _sql["meta"]
_real = SystemClock()  # the server waits for locks in real time


class PostgresCopySide:
    """One connection to one schema."""

    def __init__(self, url: str, schema: str, location: str) -> None:
        self.location = location
        self._schema, self._name = quoted(schema), schema
        self._kinds: dict[str, dict[str, str]] = {}
        """The type of each column, by table."""
        with self._guarded():
            # Never prepared: a pooler may give each transaction another session.
            self._c: psycopg.Connection[Row] = psycopg.connect(
                url,
                application_name="tenure copy",
                client_encoding="utf8",
                prepare_threshold=None,
                autocommit=True,
            )
            self._c.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            self._c.read_only = False
        self._columns = self._run(_sql["columns"], {"schema": schema})
        for table, column, kind, _ in self._columns:
            self._kinds.setdefault(str(table), {})[str(column)] = str(kind)

    def close(self) -> None:
        self._c.close()

    def write(self, work: Callable[[], T]) -> T:
        until = _real.monotonic() + PATIENCE
        while True:
            try:
                with self._begun():
                    self._run(_sql["begin_to_write"])
                    self._run(self._text("alone"))
                    return work()
            except StoreError as error:
                if not isinstance(error.__cause__, _LOCKED) or _real.monotonic() > until:
                    raise
            _real.block(PAUSE)

    def check_rights(self) -> None:
        ((role, exists, creates, others),) = self._run(_sql["rights"], {"schema": self._name})
        if others is not None:
            wrong = f"does not own {others}, and only owners can make them refuse writes"
        elif not creates and exists:
            wrong = f"may not create anything in the schema {self._name}"
        elif not creates:
            wrong = f"may not create the schema {self._name} in this database"
        else:
            return
        raise StoreError(
            f"{self.location}: the role {role!r} {wrong}. Copy with the URL of the role that"
            f" migrates: the owner of the schema {self._name}, or of the database. Nothing was"
            " changed."
        )

    def tables(self) -> dict[str, CopiedTable]:
        keys: dict[str, list[tuple[int, str]]] = {}
        for table, column, _, place in self._columns:
            if place and (table, column) not in _DERIVED:
                assert isinstance(place, int)
                keys.setdefault(str(table), []).append((place, str(column)))
        return {
            name: CopiedTable(
                name,
                tuple(sorted(c for c in kinds if (name, c) not in _DERIVED)),
                tuple(column for _, column in sorted(keys.get(name, []))),
            )
            for name, kinds in self._kinds.items()
            if name not in NO_DATA
        }

    def count(self, table: str) -> int:
        return self._number(f"SELECT count(*) FROM {self._from(table)}")  # noqa: S608 - our own names

    def pages(self, table: CopiedTable, size: int) -> Iterator[list[Row]]:
        keys = ", ".join(f't."{key}"' for key in table.key)
        marks = ", ".join("%s" for _ in table.key)
        text = f"SELECT {self._list(table)} FROM {self._from(table.name)}"  # noqa: S608
        order = f" ORDER BY {keys} LIMIT {size}"
        page = self._run(text + order)
        while page:
            yield page
            after = self._passed(table, table.key, [table.key_of(page[-1])])[0]
            page = self._run(f"{text} WHERE ({keys}) > ({marks}){order}", after)

    def find(self, table: CopiedTable, keys: Sequence[Row]) -> list[Row]:
        text = f"SELECT {self._list(table)} FROM {self._from(table.name)}"  # noqa: S608
        return self._run(f"{text} JOIN {self._given(table, table.key)}", self._arrays(table, keys))

    def insert(self, table: CopiedTable, rows: Sequence[Row], *, lenient: bool) -> None:
        columns = ", ".join(f'"{column}"' for column in table.columns)
        values = _columnwise(self._passed(table, table.columns, rows))
        derived, more = "", ""
        if table.name == "event":
            derived, more = ', "partition"', ", p"
            values.append([_partition(table, row) for row in rows])
        elif table.name == "event_group":
            derived, more = ', "partition"', ", generate_series(0, 15)"
        given = ", ".join(f"%s::{self._kind(table.name, c)}[]" for c in table.columns)
        given += ", %s::smallint[]" if table.name == "event" else ""
        names = columns + (", p" if table.name == "event" else "")
        text = (
            f"INSERT INTO {self._schema}.{table.name} ({columns}{derived}) OVERRIDING SYSTEM VALUE"  # noqa: S608
            f" SELECT {columns}{more} FROM unnest({given}) AS k ({names})"
        )
        self._run(text + (" ON CONFLICT DO NOTHING" if lenient else ""), values)

    def delete(self, table: CopiedTable, keys: Sequence[Row]) -> None:
        text = f"DELETE FROM {self._schema}.{table.name} t USING"  # noqa: S608
        given = self._given(table, table.key).replace(") ON ", ") WHERE ")
        self._run(f"{text} {given}", self._arrays(table, keys))

    def empty(self, table: str) -> None:
        self._run(f"DELETE FROM {self._schema}.{table}")  # noqa: S608

    def mark(self, role: Role) -> CopyMark | None:
        query = f"SELECT value FROM {self._schema}.meta WHERE key = %s"  # noqa: S608
        rows = self._run(query, [copy_marks.key_of(role)])
        return copy_marks.read(str(rows[0][0])) if rows else None

    def set_mark(self, role: Role, mark: CopyMark | None) -> None:
        key, meta = copy_marks.key_of(role), f"{self._schema}.meta"
        self._run(f"DELETE FROM {meta} WHERE key = %s", [key])  # noqa: S608
        if mark is not None:
            values = [key, copy_marks.written(mark)]
            self._run(f"INSERT INTO {meta} VALUES (%s, %s)", values)  # noqa: S608

    def refuse(self, barrier: Barrier, scope: str, text: str) -> None:
        self.admit()
        words = {"schema": self._schema, "message": literal(REFUSED + text)}
        self._run(_sql["refuse"].format(**words))
        if barrier == "fence":
            self._run(_sql["fence"].format(**words, scope=literal(scope)))
            return
        for table in self._kinds:
            self._run(_sql["all"].format(**words, table=f'"{table}"'))

    def admit(self) -> None:
        for table in self._kinds:
            self._run(f'LOCK TABLE {self._schema}."{table}" IN SHARE ROW EXCLUSIVE MODE')
        for (name,) in self._run(_sql["barriers"], {"schema": self._name}):
            self._run(f'DROP TRIGGER tenure_barrier ON {self._schema}."{name}"')

    def take_office(self, scope: str, holder: str) -> int:
        values = {"scope": scope, "holder": holder, "most": MOST_TERM}
        taken = self._run(self._text("take"), values)
        return max((term for (term,) in taken if isinstance(term, int)), default=0)

    def claimed(self) -> int:
        return self._number(f"SELECT count(*) FROM {self._schema}.run WHERE state = 'claimed'")  # noqa: S608

    def uneven(self) -> list[str]:
        rows = self._run(self._text("uneven"))
        return [f"the group {group!r} of topic {topic!r}" for topic, group in rows]

    def place_events(self, scope: str) -> None:
        texts = statements("sql/events.sql", self._name)
        while fences := self._run(self._text("unplaced"), {"scope": scope}):
            for namespace, term, holder in fences:
                values = {"namespace": namespace, "scope": scope, "term": term, "holder": holder}
                self._run(texts["lock_log"], values)
                self._run(texts["sequence"], {**values, "limit": PLACED})

    def counters(self) -> dict[str, int]:
        found = {}
        for table, sequence in self._sequences():
            query = f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {sequence}"  # noqa: S608
            number = self._number(query)
            found[table] = number if is_number(number) else 0
        return found

    def raise_counters(self, counters: dict[str, int]) -> None:
        own = self.counters()
        for table, sequence in self._sequences():
            key = self.tables()[table].key[0]
            given = f"SELECT coalesce(max({key}), 0) FROM {self._schema}.{table}"  # noqa: S608
            most = self._number(f"{given} WHERE {key} < {NUMBERS}")
            number = max(most, own[table], counters.get(table, 0))
            if number:
                self._run("SELECT setval(%s::regclass, %s)", [sequence, number])

    def _text(self, name: str) -> str:
        return _sql[name].format(
            schema=self._schema, groups=_sql["groups"].format(schema=self._schema)
        )

    def _sequences(self) -> list[tuple[str, str]]:
        rows = self._run(_sql["sequences"], {"schema": self._name})
        return [(str(table), str(sequence)) for table, sequence in rows]

    def _from(self, table: str) -> str:
        if table == "event_group":
            return f"({self._text('groups')}) t"
        return f'{self._schema}."{table}" t'

    def _list(self, table: CopiedTable) -> str:
        return ", ".join(self._shared(table.name, column) for column in table.columns)

    def _shared(self, table: str, column: str) -> str:
        match self._kind(table, column):
            case "timestamptz":
                return f'(extract(epoch FROM t."{column}") * 1000000)::bigint'
            case "boolean":
                return f't."{column}"::integer'
            case _:
                return f't."{column}"'

    def _kind(self, table: str, column: str) -> str:
        return _KINDS[self._kinds[table][column]]

    def _given(self, table: CopiedTable, columns: Sequence[str]) -> str:
        arrays = ", ".join(f"%s::{self._kind(table.name, c)}[]" for c in columns)
        names = ", ".join(f'"{column}"' for column in columns)
        same = " AND ".join(f't."{column}" = k."{column}"' for column in columns)
        return f"unnest({arrays}) AS k ({names}) ON {same}"

    def _arrays(self, table: CopiedTable, keys: Sequence[Row]) -> list[list[Any]]:
        return _columnwise(self._passed(table, table.key, keys))

    def _passed(
        self, table: CopiedTable, columns: Sequence[str], rows: Sequence[Row]
    ) -> list[tuple[Any, ...]]:
        """Rows as the driver wants them."""
        makes = [_MAKES.get(self._kind(table.name, column)) for column in columns]
        return [
            tuple(
                value if make is None or value is None else make(value)
                for make, value in zip(makes, row, strict=True)
            )
            for row in rows
        ]

    def _number(self, query: str) -> int:
        ((number,),) = self._run(query)
        assert isinstance(number, int)
        return number

    def _run(self, query: str, values: Any = None) -> list[Row]:
        if self._c.info.transaction_status is TransactionStatus.IDLE:
            with self._begun():
                return self._run(query, values)
        with self._guarded():
            cursor = self._c.execute(query, values)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def _begun(self) -> Iterator[None]:
        """A transaction in which nothing is called but what is the system's or ours."""
        with self._guarded(), self._c.transaction():
            self._c.execute(_sql["begin"], {"path": PATH})
            yield

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            translate(error)


def _moment(micros: Any) -> Any:
    try:
        return from_micros(micros)
    except (OverflowError, TypeError) as error:
        raise StoreUnavailable(f"{micros!r} is not a time that PostgreSQL can store") from error


_MAKES: dict[str, Callable[[Any], Any]] = {"timestamptz": _moment, "boolean": bool}


def _columnwise(rows: list[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _partition(table: CopiedTable, row: Row) -> int | None:
    """As `sequence` in sql/events.sql gives it."""
    values: dict[str, Value] = dict(zip(table.columns, row, strict=True))
    position, key = values["position"], values["key"]
    if not isinstance(position, int):
        return None
    if key is None:
        return position % PARTITIONS
    return sha256(str(key).encode()).digest()[0] % PARTITIONS
