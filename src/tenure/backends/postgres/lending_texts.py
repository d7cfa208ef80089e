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
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg.pq.abc import PGconn

from tenure.backends.postgres.connections.database import Database
from tenure.backends.postgres.connections.session import (
    FROM_17,
    settings,
    settings_of,
)
from tenure.backends.postgres.encodings import fitting, fitting_json
from tenure.backends.postgres.lending_line import Line
from tenure.backends.postgres.runs import PostgresRuns
from tenure.backends.postgres.statements import Statement, literal
from tenure.model import Result

NAME = "tenure task"
_MOST_MILLISECONDS = 2**31 - 1
_VALUE = re.compile(r"%\((\w+)\)s")
_RECORDING = {True: ("succeed", "give_way"), False: ("succeed", "mark", "wake")}
"""What is executed for each result, in this order: may the role call the function that marks?"""
_CHECK = "check"
"""What is executed before them."""
PREPARED = {marks: 1 + len(recording) for marks, recording in _RECORDING.items()}
"""How many statements of ours a session has."""


class LendingTexts:
    """For the database of the store."""

    def __init__(self, database: Database, runs: PostgresRuns) -> None:
        self._database = database
        self._runs = runs
        self._sql = database.statements("sql/lending.sql")
        self._always = {name: _literal(value) for name, value in runs.always.items()}
        self._recording = {marks: self._ways(names) for marks, names in _RECORDING.items()}
        self._settings: dict[tuple[int, str], tuple[str, str]] = {}

    def _ways(self, names: Sequence[str]) -> tuple[str, str, str]:
        """How these are sent as they are, how they are prepared, and how executed."""
        both = [_prepared(name, self._sql[name], self._always) for name in names]
        return (
            _merged_in(self._always, ";\n".join(self._sql[name] for name in names)),
            ";\n".join(preparing for preparing, _ in both),
            ";\n".join(executing for _, executing in both),
        )

    def begin(self, line: Line, limit: float) -> str:
        """Its last answer is for `Line.learn`, if it is not known whether the session is ours."""
        milliseconds = min(_MOST_MILLISECONDS, max(1, int(limit * 1000)))
        texts = [self._sql["begin"]]
        if line.pgconn.server_version >= FROM_17:
            texts.append(self._sql["begin_from_17"])
        if line.alone is None:
            texts.append(self._sql["learn"])
        return ";\n".join(texts).replace("%(limit)s", str(milliseconds))

    def commit(self, line: Line, result: Result) -> str:
        constraints, reset = self._sql["constraints"], self._sql["reset"]
        end = [self._recorded(line, result), "COMMIT", reset]
        if not line.alone:
            begin = [constraints, self._sql["check"], self._set(line)[0]]
        elif line.prepared:
            # The savepoint is for `commit_again`. It is released at once, because what is written
            # in a savepoint costs more.
            savepoint, release = "SAVEPOINT tenure_end", "RELEASE tenure_end"
            begin = [constraints, savepoint, _named(_CHECK), self._set(line)[1], release]
        else:
            begin = [constraints, self._sql["check"], self._prepare(line)]
        return ";\n".join([*begin, *end])

    def commit_again(self, line: Line, result: Result) -> str:
        """After `commit` found that the prepared statements are gone, or outdated."""
        line.prepared = False
        return f"ROLLBACK TO SAVEPOINT tenure_end;\n{self.commit(line, result)}"

    def _recorded(self, line: Line, result: Result) -> str:
        told, codec = self._runs.told(result), self._database.codec
        literals = {
            "id": str(result.run_id),
            "claim": str(result.claim),
            "node": _literal(result.node),
            "error": _literal(fitting(result.error, codec)),
            "value": _literal(fitting_json(result.value, codec)),
        }
        as_it_is, _, executing = self._recording[line.marks]
        recorded = executing.format_map(literals) if line.alone else _merged_in(literals, as_it_is)
        if not told:
            return recorded
        return ";\n".join([recorded, *(_merged(line.pgconn, statement) for statement in told)])

    def _prepare(self, line: Line) -> str:
        check = f"{self._sql['check']}\n{self._sql['check_prepared']}"
        first = _prepared(_CHECK, check, {})[0]
        statements = [first, self._set(line)[0], self._recording[line.marks][1]]
        return ";\n".join(["DEALLOCATE ALL", *statements])

    def _set(self, line: Line) -> tuple[str, str]:
        """All settings, and those that prepared statements need. Always the same on one server."""
        database, version = self._database, line.pgconn.server_version
        key = version, database.path
        if key not in self._settings:
            told = settings_of(database.longest, NAME, database.path, local=True)
            complete = f"{settings(version)}\n{self._sql['plan_once']}"
            names = ["settings_again"]
            if version >= FROM_17:
                names.append("settings_again_from_17")
            limits = {name: _literal(told[name]) for name in told if name.endswith("limit")}
            again = _merged_in(
                limits | {"path": database.path}, ";\n".join(self._sql[name] for name in names)
            )
            self._settings[key] = _merged(line.pgconn, (complete, told)), again
        return self._settings[key]


def _named(name: str) -> str:
    return f'EXECUTE "tenure {name}"'


def _merged_in(literals: Mapping[str, str], text: str) -> str:
    """With those of its values."""
    return _VALUE.sub(lambda value: literals.get(value[1], value[0]), text)


def _prepared(name: str, text: str, always: Mapping[str, str]) -> tuple[str, str]:
    """What prepares the statement, and what executes it, by the names of values."""
    names = list(dict.fromkeys(_VALUE.findall(text)))
    numbered = _VALUE.sub(lambda value: f"${names.index(value[1]) + 1}", text)
    # Braces in a value are not to be filled in.
    known = {each: value.replace("{", "{{").replace("}", "}}") for each, value in always.items()}
    values = ", ".join(known.get(each, f"{{{each}}}") for each in names)
    return f'PREPARE "tenure {name}" AS {numbered}', f"{_named(name)} ({values})"


def _literal(value: str | None) -> str:
    """By hand: the driver takes as long for it as for all else that it does for a transaction."""
    return "NULL" if value is None else literal(value)


class _Unowned(psycopg.Connection[Any]):
    """Only to write values as the driver does."""

    def __del__(self, *_: Any) -> None:
        """The line stays open."""


def _merged(pgconn: PGconn, statement: Statement) -> str:
    """The statement with its values in it, so that it can be sent with others."""
    return psycopg.ClientCursor(_Unowned(pgconn)).mogrify(*statement)
