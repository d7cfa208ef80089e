"""From a URL, or what is handed in instead, to a backend, imported only when it is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tenure.backends.base import Backend, LeaseBackend
from tenure.backends.urls import scheme_of
from tenure.clock import Clock
from tenure.errors import ConfigError
from tenure.handed_in import made_by, url_of

DEFAULT_URL = "sqlite:///tenure.db"
TRANSACTION_LIMIT = 5.0
_REDIS = ("redis", "rediss", "unix")
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
    """The URL that is meant: the one given, else $TENURE_URL, else a file in this folder; or the
    one of an engine or a pool that was handed in."""
    if store is None or isinstance(store, str):
        return store or os.environ.get("TENURE_URL") or DEFAULT_URL
    if is_redis(store):
        raise ConfigError(NOT_IN_REDIS)
    url = url_of(store)
    if url is None:
        raise ConfigError(
            f"a store is given by a URL, an SQLAlchemy engine or a pool of psycopg, not"
            f" {type(store).__qualname__}. Known forms of URL: {_FORMS}."
        )
    return url


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
    if not namespace or not namespace.isprintable() or len(namespace) > 100:
        raise ConfigError(f"namespace must be 1 to 100 printable characters, not {namespace!r}.")
    scheme = scheme_of(url).split("+")[0]
    if scheme == "sqlite":
        path = _sqlite_path(url)
        return lambda: _make("sqlite", "SQLiteBackend", path, namespace=namespace, clock=clock)
    if scheme in ("postgres", "postgresql"):
        # Pasted from SQLAlchemy or a hosting page: postgresql+psycopg://, postgres://.
        plain = "postgresql://" + url.split("://", 1)[1]
        return lambda: _make(
            "postgres", "PostgresBackend", plain, namespace=namespace, clock=clock, limit=limit
        )
    if scheme == "memory":
        return lambda: _make("memory", "MemoryBackend", clock)
    if scheme in _REDIS:
        raise ConfigError(NOT_IN_REDIS)
    if not scheme:
        hint = f" For a file write sqlite:///{url}." if url else ""
        raise ConfigError(f"{url!r} is not a URL.{hint} Known forms: {_FORMS}.")
    raise ConfigError(f"unknown URL scheme {scheme!r} in {url!r}. Known forms: {_FORMS}.")


def parse_leases(
    store: object, namespace: str, clock: Clock, limit: float = TRANSACTION_LIMIT
) -> Callable[[], LeaseBackend]:
    """The same for leases alone, which may be in Redis too: by URL, or as a client has it."""
    if is_redis(store):
        return lambda: _make(
            "redis", "RedisBackend", client=store, namespace=namespace, clock=clock
        )
    url = resolve(store)
    if is_redis_url(url):
        return lambda: _make("redis", "RedisBackend", url, namespace=namespace, clock=clock)
    return parse(url, namespace, clock, limit)


def is_redis_url(url: str) -> bool:
    return scheme_of(url).split("+")[0] in _REDIS


def _sqlite_path(url: str) -> Path:
    rest = url.split("://", 1)[1].split("?", 1)[0]
    if rest and not rest.startswith("/"):
        raise ConfigError(
            f"{url!r} has two slashes where three are needed: write sqlite:///{rest} for a file"
            f" beside the program, or sqlite:////{rest} for an absolute path."
        )
    path = unquote(rest[1:])
    if path in ("", ":memory:"):
        raise ConfigError(
            f"{url!r} names no file. A SQLite database in memory belongs to one connection and"
            " cannot be shared; use memory:// for tests, or a file such as sqlite:///tenure.db."
        )
    return Path(path)


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
