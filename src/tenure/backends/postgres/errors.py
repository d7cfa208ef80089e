"""What the server says is wrong, whichever driver says it; and in words of ours."""

from __future__ import annotations

from typing import NoReturn

import psycopg

from tenure.address import NOWHERE
from tenure.errors import SchemaMismatch, StoreError, StoreUnavailable

DIVISION_BY_ZERO = "22012"


def sqlstate(error: BaseException) -> str | None:
    """What the server said is wrong, whichever driver, or Tenure, or SQLAlchemy, says it."""
    for said in (error, error.__cause__, getattr(error, "orig", None)):
        state = getattr(said, "sqlstate", None) or getattr(said, "pgcode", None)
        if state is not None:
            return str(state)
    return None


def translate(error: Exception) -> NoReturn:
    """The driver's error as one of ours, with what to do about it."""
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
    if isinstance(error, psycopg.OperationalError | OSError):
        raise StoreUnavailable(f"PostgreSQL is not available: {text}") from error
    raise StoreError(f"PostgreSQL: {text}") from error
