"""What is sent to begin a transaction that is lent to a task, and to end it.

The end is one text: the result of the run, the check that its claim was still the present one,
COMMIT and the clearing of the session. To plan its statements would take the server much longer
than to execute them. So they are prepared at the first end in a session, and only named from then
on. A task may have dropped them by DEALLOCATE ALL (the driver does that too, by itself): then the
server is sent back to before the first of them, and they are prepared again. Behind a pooler, whose
clients share sessions, they are sent as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.pq.abc import PGconn

from tenure.backends.postgres.connections.database import Database
from tenure.backends.postgres.connections.session import FROM_17, settings, settings_of
from tenure.backends.postgres.runs import RESULT, PostgresRuns
from tenure.backends.postgres.statements import Statement, literal
from tenure.model import Result

NAME = "tenure task"
_MOST_MILLISECONDS = 2**31 - 1
_VALUE = re.compile(r"%\((\w+)\)s")
_RECORDING = ("confirmed", "finish", "mark", "wake_for_room")
"""What is executed for each result, in this order."""
PREPARED = len(_RECORDING)
"""How many statements of ours a session has."""

AnyConnection = psycopg.Connection | psycopg.AsyncConnection


@dataclass(slots=True)
class Line:
    """A connection to the server, and what is known about the session at its other end."""

    pgconn: PGconn
    alone: bool = False
    """Is the session ours, without a pooler?"""
    prepared: bool = False
    """Does it have our statements, and no others?"""
    idle_since: float = 0.0


class LendingTexts:
    """For the database of the store."""

    def __init__(self, database: Database, runs: PostgresRuns) -> None:
        self._database = database
        self._runs = runs
        self._sql = database.statements("sql/lending.sql")
        recording = {**self._sql, **database.statements("sql/runs.sql")}
        self._recording = [recording[name] for name in _RECORDING]
        both = [_prepared(name, recording[name]) for name in _RECORDING]
        self._preparing = ";\n".join(preparing for preparing, _ in both)
        self._executing = ";\n".join(executing for _, executing in both)
        self._settings: dict[tuple[int, str, bool], str] = {}

    def begin(self, own: AnyConnection, limit: float) -> str:
        milliseconds = min(_MOST_MILLISECONDS, max(1, int(limit * 1000)))
        text = self._sql["begin"]
        if own.info.server_version >= FROM_17:
            text = f"{text}\n{self._sql['begin_from_17']}"
        return text.replace("%(limit)s", f"'{milliseconds}ms'")

    def commit(self, own: AnyConnection, line: Line, result: Result) -> str:
        columns, told = self._runs.finishing(result)
        told_texts = [_merged(own, statement) for statement in told]
        end = [*told_texts, "COMMIT", self._sql["reset"]]
        if not line.alone:
            recording = [_merged(own, (text, columns)) for text in self._recording]
            return ";\n".join([self._sql["check"], self._set(own), *recording, *end])
        literals = {name: _literal(value) for name, value in columns.items()}
        executing = self._executing.format_map(literals)
        begin = [self._sql["check"]]
        if line.prepared:
            # The savepoint is for `commit_again`.
            begin += ["SAVEPOINT tenure_end", self._set(own, again=True)]
        else:
            begin += ["DEALLOCATE ALL", self._set(own), self._preparing]
        return ";\n".join([*begin, executing, *end])

    def commit_again(self, own: AnyConnection, line: Line, result: Result) -> str:
        """After `commit` found that the prepared statements are gone, or outdated."""
        line.prepared = False
        return f"ROLLBACK TO SAVEPOINT tenure_end;\n{self.commit(own, line, result)}"

    def _set(self, own: AnyConnection, *, again: bool = False) -> str:
        """Always the same on one server. `again`: only what prepared statements need."""
        database, version = self._database, own.info.server_version
        key = version, database.path, again
        if key not in self._settings:
            told = settings_of(database.longest, NAME, database.path, local=True)
            if again:
                text = self._sql["settings_again"]
                text += self._sql["settings_again_from_17"] if version >= FROM_17 else ""
            else:
                text = f"{settings(version)}\n{self._sql['plan_once']}"
            self._settings[key] = _merged(own, (text, told))
        return self._settings[key]


def _prepared(name: str, text: str) -> tuple[str, str]:
    """What prepares the statement for one result, and what executes it, by the names of values."""
    names = list(dict.fromkeys(_VALUE.findall(text)))

    def numbered(value: re.Match[str]) -> str:
        place = f"${names.index(value[1]) + 1}"
        return f"ARRAY[{place}]" if value[1] in RESULT else place

    values = ", ".join(f"{{{each}}}" for each in names)
    preparing = f'PREPARE "tenure {name}" AS {_VALUE.sub(numbered, text)}'
    return preparing, f'EXECUTE "tenure {name}" ({values})'


def _literal(value: Any) -> str:
    """Of a value, or of the only one of an array. By hand: the driver takes as long for it as for
    all else that it does for a transaction."""
    if isinstance(value, list):
        return _literal(value[0] if value else None)
    if value is None or value is False:
        return "NULL"  # like a column that no result uses
    return literal(value) if isinstance(value, str) else str(int(value))


def _merged(connection: AnyConnection, statement: Statement) -> str:
    """The statement with its values in it, so that it can be sent with others."""
    if isinstance(connection, psycopg.Connection):
        return psycopg.ClientCursor(connection).mogrify(*statement)
    return psycopg.AsyncClientCursor(connection).mogrify(*statement)
