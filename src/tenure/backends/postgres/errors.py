"""What the server says is wrong, whichever driver says it; and in words of ours."""

from __future__ import annotations

import re
from typing import NoReturn

import psycopg

from tenure.address import NOWHERE
from tenure.errors import SchemaMismatch, StoreError, StoreUnavailable

DIVISION_BY_ZERO = "22012"
_REPEATED = re.compile(r"(invalid [a-z_ ]+):? \"[^\"]*\"")


def sqlstate(error: BaseException) -> str | None:
    """What the server said is wrong, whichever driver, or Tenure, or SQLAlchemy, says it."""
    for said in (error, error.__cause__, getattr(error, "orig", None)):
        state = getattr(said, "sqlstate", None) or getattr(said, "pgcode", None)
        if state is not None:
            return str(state)
    return None


def _advice(text: str) -> str:
    """What to look at, where the server's own words do not say it."""
    end = "" if text.endswith((".", "?")) else "."
    if "authentication failed" in text or "no password supplied" in text:
        return f"{end} Check user and password in the URL, PGPASSWORD or ~/.pgpass."
    if 'database "' in text and "does not exist" in text:
        return f"{end} Create it (createdb), or correct the URL."
    if "failed to resolve host" in text or "Connection refused" in text:
        return f"{end} Check host and port in the URL, and whether the server is up."
    return ""


def _forget_values(error: Exception) -> None:
    """Of a setting that it does not understand libpq repeats the value. That may be the end of a
    password with an & in it."""
    if isinstance(error, psycopg.Error):
        error.args = tuple(
            _REPEATED.sub(r"\1", part) if isinstance(part, str) else part for part in error.args
        )


def translate(error: Exception) -> NoReturn:
    """The driver's error as one of ours, with what to do about it."""
    _forget_values(error)
    text = " ".join(str(error).split())  # on one line, as all our errors are
    if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedColumn):
        raise SchemaMismatch(
            f"the database lacks something that this version needs ({text}). Run"
            f" `{NOWHERE.command('migrate')}`."
        ) from error
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        raise StoreError(
            f"PostgreSQL refused: {text}. Grant the role the rights on Tenure's schema, or run"
            f" `{NOWHERE.command('migrate')}` as its owner."
        ) from error
    if isinstance(error, psycopg.errors.LockNotAvailable):
        raise StoreUnavailable(
            "somebody's open transaction has locked what was to be changed, and does not let go:"
            f" {text}. Nothing was changed; pg_stat_activity and pg_locks say who it is."
        ) from error
    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
        raise StoreUnavailable(
            f"PostgreSQL may only be read here: {text}. It is a replica, or the default"
            f" default_transaction_read_only is on: `{NOWHERE.command('doctor')}` says which."
        ) from error
    if isinstance(error, psycopg.OperationalError | OSError):
        raise StoreUnavailable(f"PostgreSQL is not available: {text}{_advice(text)}") from error
    raise StoreError(f"PostgreSQL: {text}") from error
