"""The statements in the .sql files, and the protocol of what runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from psycopg.rows import DictRow

from tenure.backends.postgres.moments import Beyond
from tenure.backends.shared import event_rows, sql

if TYPE_CHECKING:
    from tenure.backends.postgres.blockers import Watch

PACKAGE = "tenure.backends.postgres"
Statement = tuple[str, Mapping[str, Any]]
Rows = list[DictRow]
Check = Callable[[list[Rows]], Exception | None]
"""Checks the results of a transaction's statements. An exception that it returns is raised, and
rolls the transaction back."""

_PARTS = (
    *("level", "known_level", "free", "limits", "room", "opening", "chosen_runs", "looks_at"),
    *("takes", "or_takes", "chosen", "or_chosen", "still_chosen", "look", "turns", "after"),
    *("later", "first", "rungs", "open_run", "in_office", "nobody", "greatest_of_all"),
    *("planned_firings", "mark_behind", "wake_for_room"),
)
_ALL = {
    "looks_at": "l.task NOT IN (SELECT name FROM limits)",
    "takes": "r.task = ANY (%(tasks)s) AND r.task NOT IN (SELECT name FROM limits)",
    "or_takes": "",
    "chosen": "",
    "or_chosen": "",
    "still_chosen": "",
}
"""What claims look at: all runs, except those of tasks with a limit."""
_CHOSEN = {
    **_ALL,
    "or_takes": " OR r.id = ANY (ARRAY(SELECT id FROM chosen))",
    "chosen": "{chosen_runs}, ",
    "or_chosen": " UNION ALL SELECT id, priority, due FROM chosen",
    "still_chosen": " (SELECT n FROM seen) AS chosen,",
    "opening": "false",
}
"""And those that were chosen from them."""
_ONE_TASK = {**_ALL, "limits": "", "looks_at": "true", "takes": "r.task = ANY (%(only)s)"}
"""Only the runs of one task."""
_JOINED = {"locked": "", "finished": "clock_timestamp()"}
_OWN = {"locked": " SKIP LOCKED", "finished": "now()"}
"""How results are recorded: in a user's transaction, or in our own."""
_LOGGED = event_rows.COLUMNS.replace("time", "time::text").replace("_at", "_at::text")
"""Events, for those who read thousands: no loader of ours is called for a time that is a text."""
_PLAIN = {str, int, float, bool}
_KEY = "((extract(epoch FROM {column}) * 1000000)::bigint)::text"
_KEY_OF_UNTIL = (
    "CASE WHEN %(until)s::timestamptz < '2001-09-10Z' THEN ''"
    " WHEN %(until)s::timestamptz < '2286-11-20Z' THEN {key} ELSE ':' END"
)
"""Keys are compared as texts: between these times they have the same length."""


class Transactions(Protocol):
    """Where a store's statements run: on our own connections, or on the user's."""

    schema: str
    longest: float
    """How many seconds a transaction may take."""
    codec: str | None
    """In what text has to fit (encodings.py); known after the first transaction."""

    def statements(self, file: str) -> dict[str, str]: ...

    async def run(
        self,
        *statements: Statement,
        limit: float | None = None,
        size: float = 1.0,
        check: Check | None = None,
        watch: Watch | None = None,
    ) -> list[Rows]: ...

    async def one(
        self, text: str, values: Mapping[str, Any], limit: float | None = None
    ) -> Rows: ...

    async def watched(
        self, statement: Statement, watch: Watch, limit: float | None = None
    ) -> Rows: ...


async def server_clock(database: Transactions) -> datetime:
    """The time now, not when the transaction began: a user's transaction may be open for long."""
    [row] = await database.one(database.statements("sql/schedules.sql")["clock"], {})
    now: datetime = row["now"]
    return now


def statements(file: str, schema: str) -> dict[str, str]:
    """The named statements of a file, for this schema, with their common parts filled in.
    `fire_late` is `fire` with `missed`, and so for `fire_events`; `claim_since` is `claim` with
    known levels (scan_start.py); `finish_unlocked` is `finish` without the rows that others have
    locked; what ends in `_limited` also takes runs that were chosen from those of tasks with a
    limit."""
    texts = sql.load(PACKAGE, file)
    words = _words(texts, schema, _ALL)
    made = {name: text.format(**words, missed="", **_JOINED) for name, text in texts.items()}
    if "claim" in texts:
        made["claim_since"] = texts["claim"].format(**{**words, "level": words["known_level"]})
        chosen = _words(texts, schema, _CHOSEN)
        for name in ("claim", "claim_in_turn", "claim_rest"):
            made[f"{name}_limited"] = texts[name].format(**chosen)
        level = sql.load(PACKAGE, "sql/ready.sql")["level"].replace("%(tasks)s", "%(only)s")
        one = _words(texts, schema, {**_ONE_TASK, "level": level})
        made |= {
            "choose": texts["choose"].format(**one),
            "tidy_limited": texts["tidy"].format(**one),
        }
    if "finish" in texts:
        made["finish_unlocked"] = texts["finish"].format(**words, **_OWN)
    if "fire" in texts:
        for name in ("fire", "fire_events"):
            made[f"{name}_late"] = texts[name].format(**words, missed=made["missed"])
    return made


def _words(texts: Mapping[str, str], schema: str, chosen: Mapping[str, str]) -> dict[str, str]:
    """The common parts of statements."""
    words = {
        "schema": quoted(schema),
        "key_of_planned": _KEY.format(column="p.nominal"),
        "key_of_nominal": _KEY.format(column="l.nominal"),
        "key_of_missed": _KEY.format(column="l.missed_first"),
        "key_of_until": _KEY_OF_UNTIL.format(key=_KEY.format(column="%(until)s::timestamptz")),
        "logged": _LOGGED,
        "moment": "greatest(statement_timestamp(), %(at)s::timestamptz)",
    }
    elsewhere = "greatest_of_all", "turns", "after", "planned_firings", "mark_behind"
    blank = dict.fromkeys((*elsewhere, "wake_for_room"), "")
    parts = {**sql.load(PACKAGE, "sql/ready.sql"), **blank, **texts, **chosen}
    for part in _PARTS:
        words[part] = parts[part].format(**words)
    return words


def as_it_is(moment: datetime) -> datetime:
    """A time from PostgreSQL needs no conversion; `ValueError` if Python cannot represent it."""
    if isinstance(moment, Beyond):
        raise ValueError(f"{moment!r} is not a date")
    return moment


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A string literal that is right whatever standard_conforming_strings says."""
    doubled = text.replace("'", "''")
    return f"'{doubled}'" if "\\" not in text else "E'" + doubled.replace("\\", "\\\\") + "'"


def arrays(rows: Sequence[Sequence[Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    """Rows as one array per column, so that a statement takes any number of rows."""
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return {name: _alike(column) for name, column in zip(names, columns, strict=True)}


def _alike(column: Sequence[Any]) -> list[Any]:
    """Its values, all of one type: the driver refuses an array of 30 and 0.5, or of an
    enumeration's member and a text."""
    types = {type(value) for value in column if value is not None}
    if len(types) < 2 and types <= _PLAIN:
        return list(column)
    for kind, plain in ((float, float), (int, int), (str, str.__str__)):
        if any(issubclass(each, kind) for each in types):
            return [None if value is None else plain(value) for value in column]
    return list(column)
