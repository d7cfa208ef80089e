"""The statements of a store's files, and where they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from psycopg.rows import DictRow

from tenure.backends import sql

PACKAGE = "tenure.backends.postgres"
T = TypeVar("T")
Statement = tuple[str, Mapping[str, Any]]
Rows = list[DictRow]
Check = Callable[[list[Rows]], Exception | None]
"""Looks at what a transaction's statements gave. What it returns is raised, and undoes them."""

_KEY = "((extract(epoch FROM {column}) * 1000000)::bigint)::text"


class Transactions(Protocol):
    """Where a store's statements run: on connections of our own, or on one of the user's."""

    schema: str

    def statements(self, file: str) -> dict[str, str]: ...

    async def run(
        self,
        *statements: Statement,
        limit: float | None = None,
        size: float = 1.0,
        check: Check | None = None,
    ) -> list[Rows]: ...

    async def one(
        self, text: str, values: Mapping[str, Any], limit: float | None = None
    ) -> Rows: ...


def statements(file: str, schema: str) -> dict[str, str]:
    """The named statements of a file, for this schema; `fire_late` is `fire` with `missed`."""
    words = {
        "schema": quoted(schema),
        "key_of_first": _KEY.format(column="%(first)s::timestamptz"),
        "key_of_planned": _KEY.format(column="p.nominal"),
        "key_of_nominal": _KEY.format(column="l.nominal"),
        "key_of_missed": _KEY.format(column="l.missed_first"),
        "moment": "greatest(statement_timestamp(), %(at)s::timestamptz)",
    }
    texts = sql.load(PACKAGE, file)
    made = {name: text.format(**words, missed="") for name, text in texts.items()}
    if "fire" in texts:
        made["fire_late"] = texts["fire"].format(**words, missed=made["missed"])
    return made


def as_it_is(moment: T) -> T:
    """How PostgreSQL keeps a moment: as one."""
    return moment


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def arrays(rows: Sequence[Sequence[Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    """Rows as one array a column: how many rows travel as one parameter each."""
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return {name: list(column) for name, column in zip(names, columns, strict=True)}
