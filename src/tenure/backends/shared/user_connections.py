"""Users' SQLAlchemy connections and sessions, inside their own transactions.

SQLAlchemy is imported only if the user has passed such an object. Statements go through SQLAlchemy,
not straight to the driver: otherwise it would not know that a transaction has begun, and would not
commit it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tenure.backends.engines import made_by
from tenure.errors import ConfigError

_NAMED = re.compile(r"%\((\w+)\)s")


def by_sqlalchemy(connection: object) -> bool:
    return made_by(connection, "sqlalchemy")


def is_async(connection: object) -> bool:
    """An AsyncConnection or AsyncSession: its blocking part works only inside `run_sync`."""
    return by_sqlalchemy(connection) and hasattr(connection, "run_sync")


def is_async_psycopg(connection: object) -> bool:
    kinds = type(connection).__mro__
    return made_by(connection, "psycopg") and any(k.__name__ == "AsyncConnection" for k in kinds)


def connection_of(given: Any) -> Any:
    """The `Connection` behind a session, or the connection itself."""
    from sqlalchemy import Connection
    from sqlalchemy.exc import UnboundExecutionError
    from sqlalchemy.orm import Session, scoped_session

    if isinstance(given, Session | scoped_session):
        try:
            given = given.connection()
        except UnboundExecutionError as error:
            raise ConfigError(
                "this session has several databases, or none: say which one with"
                " connection=session.connection(bind_arguments=…)."
            ) from error
    if not isinstance(given, Connection):
        raise ConfigError(
            f"connection= takes an SQLAlchemy Connection or Session, not"
            f" {type(given).__qualname__}. An engine has no transaction: use"
            " `with engine.begin() as connection:`."
        )
    if given.closed:
        raise ConfigError("this connection has been closed. Give one that is in a transaction.")
    return given


def adapted(style: str, text: str, values: Mapping[str, Any]) -> tuple[str, Any]:
    """A statement with %(named)s parameters, in a driver's parameter style."""
    if style == "pyformat":
        return text, values
    if style == "numeric_dollar":
        order = list(dict.fromkeys(_NAMED.findall(text)))
        places = {name: f"${place}" for place, name in enumerate(order, 1)}
        numbered = _NAMED.sub(lambda match: places[match[1]], text)
        return numbered, tuple(values[name] for name in order)
    raise ConfigError(
        f"connection= does not know this SQLAlchemy driver (parameter style {style!r}). Use"
        " postgresql+psycopg, +psycopg2 or +asyncpg."
    )
