"""Where the project's schedules are: in a database of `DATABASES`, or at a URL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core import mail
from django.db import connections

from tenure.backends.engines import url_of_settings
from tenure.backends.urls import of_sqlite
from tenure.contrib.django import conf
from tenure.errors import ConfigError


def url() -> str:
    """The store's URL, at this moment: tests have another database. Opens nothing."""
    return str(conf.given().get("URL") or _of_database(conf.alias()))


def url_or_memory() -> str:
    """The same; but a database in memory, which only Django's own connection can use, is no error
    before the store is used."""
    return "memory://" if is_in_memory() else url()


def is_in_memory() -> bool:
    if "URL" in conf.given():
        return False
    connection = _connection(conf.alias())
    return connection.vendor == "sqlite" and bool(connection.is_in_memory_db())


def under_test() -> bool:
    """Do Django's tests run in this process? They, and only they, have an outbox."""
    return hasattr(mail, "outbox")


def transaction(using: str) -> Any:
    """The driver's connection, for a change that belongs to the transaction on it."""
    connection = _connection(using)
    if not connection.in_atomic_block:
        raise ConfigError(
            f"using={using!r}: no transaction is open there, which the change would be part of."
            f" Make it inside `with transaction.atomic(using={using!r}):`, or leave out using=."
        )
    connection.ensure_connection()
    return connection.connection


def _connection(using: str) -> Any:
    if using not in connections:
        known = ", ".join(map(repr, connections))
        raise ConfigError(f"DATABASES has no {using!r}. There are: {known}.")
    return connections[using]


def _of_database(using: str) -> str:
    connection = _connection(using)
    if connection.vendor == "sqlite":
        if connection.is_in_memory_db():
            raise ConfigError(
                f"DATABASES[{using!r}] is a SQLite database in memory, which only Django's own"
                " connection can use. Use a file; in tests, tenure.contrib.django.testing."
            )
        return of_sqlite(Path(connection.settings_dict["NAME"]).absolute())
    if connection.vendor == "postgresql":
        return url_of_settings(f"DATABASES[{using!r}]", connection.get_connection_params())
    raise ConfigError(
        f"DATABASES[{using!r}] is {connection.display_name}; Tenure knows SQLite and PostgreSQL."
        " Say with TENURE['DATABASE'] which of DATABASES it should use, or give TENURE['URL']."
    )
