"""Connections and sessions of SQLAlchemy that users lend us for a statement or two.

SQLAlchemy is not imported unless one is at hand. Statements go through it, not past it: only then
does it know that a transaction has begun, and commits it when it is told to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tenure.errors import ConfigError
from tenure.handed_in import made_by

_NAMED = re.compile(r"%\((\w+)\)s")


def by_sqlalchemy(connection: object) -> bool:
    return made_by(connection, "sqlalchemy")


def is_async(connection: object) -> bool:
    """An AsyncConnection or AsyncSession: it lends its blocking self to `run_sync` alone."""
    return by_sqlalchemy(connection) and hasattr(connection, "run_sync")


def connection_of(lent: Any) -> Any:
    """The `Connection` that a session, or a connection, works on now."""
    from sqlalchemy import Connection
    from sqlalchemy.exc import UnboundExecutionError
    from sqlalchemy.orm import Session, scoped_session

    if isinstance(lent, Session | scoped_session):
        try:
            lent = lent.connection()
        except UnboundExecutionError as error:
            raise ConfigError(
                "this session has several databases, or none: say which one with"
                " connection=session.connection(bind_arguments=…)."
            ) from error
    if not isinstance(lent, Connection):
        raise ConfigError(
            f"connection= takes a Connection or a Session of SQLAlchemy, not"
            f" {type(lent).__qualname__}. An engine has no transaction: use"
            " `with engine.begin() as connection:`."
        )
    if lent.closed:
        raise ConfigError("this connection has been closed. Give one that is in a transaction.")
    return lent


def adapted(style: str, text: str, values: Mapping[str, Any]) -> tuple[str, Any]:
    """A statement with %(named)s parameters as a driver of this parameter style wants it."""
    if style == "pyformat":
        return text, values
    if style == "numeric_dollar":
        order = list(dict.fromkeys(_NAMED.findall(text)))
        places = {name: f"${place}" for place, name in enumerate(order, 1)}
        numbered = _NAMED.sub(lambda match: places[match[1]], text)
        return numbered, tuple(values[name] for name in order)
    raise ConfigError(
        f"connection= does not know this driver of SQLAlchemy (parameter style {style!r}). Use"
        " postgresql+psycopg, +psycopg2 or +asyncpg."
    )
