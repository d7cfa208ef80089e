"""From a URL, or an engine, pool or client instead, to a backend, which is imported when needed."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from tenure.backends.base import Backend, LeaseBackend, Place, Scheme
from tenure.backends.engines import made_by, url_of
from tenure.backends.redis_client import RedisClient
from tenure.backends.urls import (
    POSTGRES,
    REDIS,
    check_server,
    file_in,
    is_word,
    scheme_of,
    sqlite_path,
)
from tenure.errors import ConfigError
from tenure.process.clock import Clock

DEFAULT_URL = "sqlite:///tenure.db"
TRANSACTION_LIMIT = 5.0
URL_MOST = 10_000
"""How long a URL in a file may be."""
_FORMS = (
    "sqlite:///relative/path.db, sqlite:////absolute/path.db, postgresql://user@host/database"
    " or memory://"
)
_LEASE_FORMS = f"redis://host:6379/0, {_FORMS}"


def resolve(store: object) -> str:
    """The URL of a store. Given nothing: $TENURE_URL, or what is in $TENURE_URL_FILE, or a file in
    this folder. Given an engine or a pool: where that connects."""
    if isinstance(store, str) and not store.strip():
        raise ConfigError(
            "the URL is empty: perhaps a variable is not set? Give one, such as"
            f" {DEFAULT_URL}; or none, for $TENURE_URL, else that file."
        )
    if store is None or isinstance(store, str):
        return (store or from_environment("TENURE_URL") or DEFAULT_URL).strip()
    if is_redis(store):
        raise _no_schedules("redis")
    url = url_of(store)
    if url is None:
        raise ConfigError(
            f"a store is a URL, an SQLAlchemy engine or a psycopg pool, not"
            f" {type(store).__qualname__}. Known forms of URL: {_FORMS}."
        )
    return url


def from_environment(variable: str) -> str | None:
    """The URL in this variable, or in the file that the variable with _FILE names."""
    url, file = os.environ.get(variable), os.environ.get(f"{variable}_FILE")
    for name, value in ((variable, url), (f"{variable}_FILE", file)):
        if value is not None and not value.strip():
            raise ConfigError(
                f"{name} is set, and empty: perhaps a variable that it comes from is not set? Give"
                " it a value, or unset it."
            )
    if url and file:
        raise ConfigError(
            f"both {variable} and {variable}_FILE are set: which is meant? Unset one."
        )
    return read_url(file, f"{variable}_FILE") if file else url or None


def read_url(path: str, what: str) -> str:
    """The URL in a file, its only line. No error shows the content of the file."""
    if "://" in path:
        raise ConfigError(f"{what} is a URL; it must be the name of a file that contains one.")
    try:
        with Path(path).open("rb") as file:
            found = file.read(URL_MOST + 1)
    except OSError as error:
        raise ConfigError(
            f"{what} names {path!r}, which cannot be read: {error.strerror}. It must be a"
            " file that contains the URL and that this user can read."
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
    return isinstance(store, RedisClient) or made_by(store, "redis", "valkey")


def parse(
    url: str, namespace: str, clock: Clock, limit: float = TRANSACTION_LIMIT
) -> Callable[[], Backend]:
    """Check a URL now, and return a function that makes its backend later.

    `limit` is how many seconds a transaction may take, where the store can enforce that.
    """
    check_namespace(namespace)
    scheme = _scheme(url)
    if scheme.leases_only:
        raise _no_schedules(scheme_of(url))
    make = scheme.parse(Place(url, namespace, clock, limit))
    return cast(Callable[[], Backend], make)  # since it is not `leases_only`


def parse_leases(
    store: object, namespace: str, clock: Clock, limit: float = TRANSACTION_LIMIT
) -> Callable[[], LeaseBackend]:
    """The same for leases alone, which may also be in Redis: by URL, or as a client has it."""
    if is_redis(store):
        check_redis_namespace(namespace)
        given = store if isinstance(store, RedisClient) else RedisClient(store)
        settings = {"namespace": namespace, "clock": clock, "prefix": given.prefix}
        return lambda: _make("redis", "RedisBackend", client=given.client, **settings)
    check_namespace(namespace)
    url = resolve(store)
    return _scheme(url, _LEASE_FORMS).parse(Place(url, namespace, clock, limit))


def keeps_schedules(url: str) -> bool:
    """Does this store keep schedules, or only leases?"""
    return not _scheme(url).leases_only


def called(scheme: str) -> str:
    """The name of such a store, in a sentence."""
    return "Redis" if scheme in REDIS else f"{scheme}://"


def _sqlite(place: Place) -> Callable[[], Backend]:
    path = sqlite_path(place.url)
    return lambda: _make(
        "sqlite", "SQLiteBackend", path, namespace=place.namespace, clock=place.clock
    )


def _postgres(place: Place) -> Callable[[], Backend]:
    check_server(place.url)
    # It may come from SQLAlchemy or a hosting page: postgresql+psycopg://, postgres://.
    url = "postgresql://" + place.url.split("://", 1)[1]
    settings = {"namespace": place.namespace, "clock": place.clock}
    limit = place.transaction_limit
    return lambda: _make("postgres", "PostgresBackend", url, limit=limit, **settings)


def _memory(place: Place) -> Callable[[], Backend]:
    if place.url.partition("://")[2]:
        raise ConfigError(
            "a memory:// URL has nothing after its slashes: each one is a store of its own, inside"
            " one process. Write memory://; to share a store, use a file such as"
            " sqlite:///tenure.db."
        )
    return lambda: _make("memory", "MemoryBackend", place.clock)


def _redis(place: Place) -> Callable[[], LeaseBackend]:
    check_server(place.url)
    check_redis_namespace(place.namespace)
    return lambda: _make(
        "redis", "RedisBackend", place.url, namespace=place.namespace, clock=place.clock
    )


_SCHEMES = {
    "sqlite": Scheme(_sqlite),
    "memory": Scheme(_memory),
    **dict.fromkeys(POSTGRES, Scheme(_postgres)),
    **dict.fromkeys(REDIS, Scheme(_redis, leases_only=True)),
}
"""Tenure's own. Any other scheme is looked up among the installed packages (entry_points.py)."""


def _scheme(url: str, forms: str = _FORMS) -> Scheme:
    name = scheme_of(url)
    if not name:
        file = file_in(url)
        what = f"{file!r}" if file else "the text given as a URL"
        hint = f" For a file write sqlite:///{file}." if file else ""
        raise ConfigError(f"{what} is not a URL.{hint} Known forms: {forms}.")
    return _SCHEMES.get(name) or _outside(name, forms)


def _outside(name: str, forms: str) -> Scheme:
    from tenure.backends import (
        entry_points,  # reads the metadata of all packages that are installed
    )

    scheme = entry_points.find(name)
    if scheme is None:
        what = f"unknown URL scheme {name!r}" if is_word(name) else "this URL's scheme is unknown"
        more = ", ".join(entry_points.installed())
        raise ConfigError(
            f"{what}. Known forms: {forms}." + (f" Other packages provide {more}." if more else "")
        )
    return scheme


def _no_schedules(scheme: str) -> ConfigError:
    store = called(scheme)
    return ConfigError(
        f"{store} holds leases here, not schedules. Either keep schedules in a database and only"
        f" the leases in {store}, Scheduler('postgresql://…', leases='{scheme}://…') (SQLite works"
        f" too), or leave {store} out, Scheduler('postgresql://…')."
    )


def check_redis_namespace(namespace: str) -> None:
    """Refuse braces: Redis hashes what is between the first ones in a key, and our keys use that.
    With more of them, two namespaces could share keys, or one could have keys in several slots."""
    check_namespace(namespace)
    if "{" in namespace or "}" in namespace:
        raise ConfigError(
            f"namespace {namespace!r} has braces, which have a meaning in Redis. Leave them out."
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
