"""From a URL, or what is handed in instead, to a backend, imported only when it is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from tenure.backends.base import Backend, LeaseBackend
from tenure.clock import Clock
from tenure.errors import ConfigError
from tenure.handed_in import made_by, url_of
from tenure.urls import POSTGRES, REDIS, check_server, file_in, scheme_of, sqlite_path

DEFAULT_URL = "sqlite:///tenure.db"
TRANSACTION_LIMIT = 5.0
URL_MOST = 10_000
"""How long a URL in a file may be."""
NOT_IN_REDIS = (
    "Redis holds leases here, not schedules. Two ways on: keep schedules in a database and only the"
    " leases in Redis, Scheduler('postgresql://…', leases='redis://…') (SQLite works too); or leave"
    " Redis out, Scheduler('postgresql://…')."
)
_FORMS = (
    "sqlite:///relative/path.db, sqlite:////absolute/path.db, postgresql://user@host/database"
    " or memory://"
)


def resolve(store: object) -> str:
    """The URL that is meant: the one given, else $TENURE_URL or what is in $TENURE_URL_FILE, else
    a file in this folder; or the one of an engine or a pool that was handed in."""
    if store is None or isinstance(store, str):
        return (store or from_environment("TENURE_URL") or DEFAULT_URL).strip()
    if is_redis(store):
        raise ConfigError(NOT_IN_REDIS)
    url = url_of(store)
    if url is None:
        raise ConfigError(
            f"a store is given by a URL, an SQLAlchemy engine or a pool of psycopg, not"
            f" {type(store).__qualname__}. Known forms of URL: {_FORMS}."
        )
    return url


def from_environment(variable: str) -> str | None:
    """The URL in this variable, or in the file that the variable with _FILE names."""
    url, file = os.environ.get(variable), os.environ.get(f"{variable}_FILE")
    if url and file:
        raise ConfigError(
            f"both {variable} and {variable}_FILE are set: which is meant? Unset one."
        )
    return read_url(file, f"{variable}_FILE") if file else url or None


def read_url(path: str, what: str) -> str:
    """The URL that a file has: its only line. What is in the file is never part of an error."""
    if "://" in path:
        raise ConfigError(f"{what} is a URL; it has to be the name of a file that has one.")
    try:
        with Path(path).open("rb") as file:
            found = file.read(URL_MOST + 1)
    except OSError as error:
        raise ConfigError(
            f"{what} names {path!r}, which cannot be read: {error.strerror}. It has to be a"
            " file with the URL in it, readable for this user."
        ) from error
    text = found.decode("utf-8", "replace").strip()
    if len(found) > URL_MOST or not text.isprintable() or "\ufffd" in text:
        text = ""
    if not scheme_of(text):
        raise ConfigError(
            f"{what} names {path!r}, which does not have one URL as its only line, such as"
            " postgresql://user:password@host/database."
        )
    return text


def resolve_leases(store: object) -> str | object:
    """The same for leases: a Redis client is left as it is."""
    return store if is_redis(store) else resolve(store)


def is_redis(store: object) -> bool:
    return made_by(store, "redis", "valkey")


def parse(
    url: str, namespace: str, clock: Clock, limit: float = TRANSACTION_LIMIT
) -> Callable[[], Backend]:
    """Check a URL, now, and say how to make its backend, later.

    `limit`: how many seconds a transaction may take, where the store can see to that.
    """
    check_namespace(namespace)
    scheme = scheme_of(url)
    if scheme == "sqlite":
        path = sqlite_path(url)
        return lambda: _make("sqlite", "SQLiteBackend", path, namespace=namespace, clock=clock)
    if scheme in POSTGRES:
        check_server(url)
        # Pasted from SQLAlchemy or a hosting page: postgresql+psycopg://, postgres://.
        plain = "postgresql://" + url.split("://", 1)[1]
        return lambda: _make(
            "postgres", "PostgresBackend", plain, namespace=namespace, clock=clock, limit=limit
        )
    if scheme == "memory":
        return lambda: _make("memory", "MemoryBackend", clock)
    if scheme in REDIS:
        raise ConfigError(NOT_IN_REDIS)
    if not scheme:
        file = file_in(url)
        what = f"{file!r}" if file else "what is given for the store"
        hint = f" For a file write sqlite:///{file}." if file else ""
        raise ConfigError(f"{what} is not a URL.{hint} Known forms: {_FORMS}.")
    raise ConfigError(f"unknown URL scheme {scheme!r}. Known forms: {_FORMS}.")


def parse_leases(
    store: object, namespace: str, clock: Clock, limit: float = TRANSACTION_LIMIT
) -> Callable[[], LeaseBackend]:
    """The same for leases alone, which may be in Redis too: by URL, or as a client has it."""
    if is_redis(store):
        check_redis_namespace(namespace)
        return lambda: _make(
            "redis", "RedisBackend", client=store, namespace=namespace, clock=clock
        )
    url = resolve(store)
    if is_redis_url(url):
        check_server(url)
        check_redis_namespace(namespace)
        return lambda: _make("redis", "RedisBackend", url, namespace=namespace, clock=clock)
    return parse(url, namespace, clock, limit)


def is_redis_url(url: str) -> bool:
    return scheme_of(url) in REDIS


def check_redis_namespace(namespace: str) -> None:
    """Braces say what of a key decides its slot in a cluster, and are part of our keys: with more
    of them two namespaces could have keys of one name, or one namespace keys of several slots."""
    check_namespace(namespace)
    if "{" in namespace or "}" in namespace:
        raise ConfigError(
            f"namespace {namespace!r} has braces, which mean something to Redis. Leave them out."
        )


def check_namespace(namespace: str) -> None:
    if not _is_name(namespace):
        raise ConfigError(f"namespace must be 1 to 100 printable characters, not {namespace!r}.")


def _is_name(given: object) -> bool:
    return isinstance(given, str) and 1 <= len(given) <= 100 and given.isprintable()


def _make(module: str, name: str, *args: object, **kwargs: object) -> Any:
    try:
        made = import_module(f"tenure.backends.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("tenure"):
            raise
        raise ConfigError(
            f"this URL needs the package {error.name!r}: pip install 'tenure[{module}]'"
        ) from error
    return getattr(made, name)(*args, **kwargs)


def fence_of(connection: object) -> Callable[[Any, str, str, int, str], None]:
    """How a fence is checked on a connection of this kind."""
    driver = type(connection).__module__.split(".")[0]
    module = {"sqlite3": "sqlite", "psycopg": "postgres"}.get(driver)
    if module is None:
        raise ConfigError(
            f"fence() does not know connections of {type(connection).__qualname__} ({driver});"
            " give it a sqlite3.Connection or a psycopg.Connection."
        )
    check: Callable[[Any, str, str, int, str], None] = import_module(
        f"tenure.backends.{module}.fence"
    ).fence
    return check
