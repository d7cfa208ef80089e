"""What an application may pass instead of a URL: an SQLAlchemy engine, or a psycopg pool.

Tenure takes from it only where it connects, and as whom. Tenure has its own thread and event loop,
so it makes its own connections with these settings, and does not use the engine's or the pool's.
Neither package is imported here: an application that passes an engine has imported it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from tenure.backends.urls import POSTGRES, check_server, scheme_of
from tenure.errors import ConfigError

_TAKEN = {
    *("host", "hostaddr", "port", "dbname", "user", "password", "passfile", "service", "options"),
    *("sslmode", "sslcert", "sslkey", "sslpassword", "sslrootcert", "sslcrl", "sslnegotiation"),
    *("gssencmode", "krbsrvname", "channel_binding", "require_auth", "requiressl"),
    *("target_session_attrs", "load_balance_hosts"),
}
"""libpq's settings of where to connect and as whom; all others are the application's own affair."""
_OTHER_DRIVERS = {"database": "dbname", "ssl": "sslmode"}
_NOT_FOR_US = ("ssl_context", "unix_sock", "dsn")


def url_of(handed_in: object) -> str | None:
    """The URL of its database; None if this is neither an engine nor a pool."""
    if made_by(handed_in, "sqlalchemy") and hasattr(handed_in, "dialect"):
        return _of_engine(getattr(handed_in, "sync_engine", handed_in))
    if made_by(handed_in, "psycopg_pool"):
        return _of_pool(handed_in)
    return None


def url_of_settings(what: str, given: Mapping[str, Any]) -> str:
    """The URL of the PostgreSQL that these settings of libpq lead to. `what` has them."""
    return _postgres(what, given)


def made_by(thing: object, *packages: str) -> bool:
    """Is its class from one of these packages, or derived from one that is?"""
    return any(base.__module__.split(".")[0] in packages for base in type(thing).__mro__)


def _of_engine(engine: Any) -> str:
    backend, url = engine.url.get_backend_name(), engine.url
    creator: Callable[..., Any] | None = getattr(engine.pool, "_creator", None)
    if getattr(creator, "__module__", "").split(".")[:2] != ["sqlalchemy", "engine"]:
        raise _unusable("this engine", "your own function (creator=) makes its connections")
    if backend == "sqlite":
        return _sqlite(url)
    if backend not in ("postgresql", "postgres"):
        raise _unusable("this engine", f"it is for {backend}; Tenure knows SQLite and PostgreSQL")
    if engine.dialect.dispatch.do_connect:
        raise _unusable(
            "this engine", "a listener (do_connect) changes its settings at each connection"
        )
    # The result of the URL and connect_args=; if SQLAlchemy hides that, of the URL alone.
    given = inspect.getclosurevars(creator).nonlocals.get("cparams") if creator else None
    return _postgres("this engine", given or engine.dialect.create_connect_args(url)[1])


def _of_pool(pool: Any) -> str:
    if pool.closed and getattr(pool, "_opened", False):
        raise _unusable("this pool", "it has been closed")
    if callable(pool.conninfo) or callable(pool.kwargs):
        raise _unusable("this pool", "a function supplies its settings for each connection")
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    kwargs = {name: value for name, value in (pool.kwargs or {}).items() if name in _TAKEN}
    if scheme_of(pool.conninfo or "") in POSTGRES:
        check_server(pool.conninfo)
    try:
        given = conninfo_to_dict(pool.conninfo or "", **kwargs)
    except psycopg.Error:
        given = None  # not as the cause: libpq's error may repeat a part of the password
    if given is None:
        raise _unusable("this pool", "libpq cannot read its conninfo")
    return _postgres("this pool", given)


def _sqlite(url: Any) -> str:
    path, query = url.database or "", dict(url.query)
    if path in ("", ":memory:") or "mode=memory" in path or query.get("mode") == "memory":
        raise _unusable(
            "this engine",
            "its SQLite database is in memory and belongs to its own connection. Use a file, or"
            " memory:// for tests",
        )
    if path.startswith("file:"):
        raise _unusable("this engine", "its SQLite database is named by a file: URI")
    return f"sqlite:///{quote(path)}"


def _postgres(what: str, given: Mapping[str, Any]) -> str:
    named = {_OTHER_DRIVERS.get(name, name): value for name, value in given.items()}
    for name in _NOT_FOR_US:
        if named.get(name) is not None:
            raise _unusable(what, f"{name}= belongs to its driver, and psycopg does not know it")
    settings: dict[str, str] = {}
    for name in sorted(named.keys() & _TAKEN):
        value = named[name]
        if name == "sslmode" and value is True:
            value = "require"
        if isinstance(value, list | tuple):
            value = ",".join(map(str, value))
        if value is not None and not isinstance(value, str | int):
            raise _unusable(what, f"its {name} is a {type(value).__qualname__}, not a text")
        if value not in (None, "", False):
            settings[name] = str(value)
    return _as_url(settings)


def _as_url(settings: dict[str, str]) -> str:
    """A URL for libpq: host and database in their usual places, the rest after the `?`."""
    user, hosts = settings.pop("user", ""), settings.pop("host", "")
    database, netloc = settings.pop("dbname", ""), ""
    if "/" in hosts:
        settings["host"] = hosts  # a socket's folder can only be a setting
    elif hosts:
        ports = settings.pop("port", "").split(",")
        ports = ports * len(hosts.split(",")) if len(ports) == 1 else ports
        pairs = zip(hosts.split(","), ports, strict=False)
        netloc = ",".join(
            (f"[{host}]" if ":" in host else quote(host)) + (f":{port}" if port else "")
            for host, port in pairs
        )
    if user:
        netloc = f"{quote(user, safe='')}@{netloc}"
    query = urlencode(settings, quote_via=quote)
    return f"postgresql://{netloc}/{quote(database, safe='')}" + (f"?{query}" if query else "")


def _unusable(what: str, why: str) -> ConfigError:
    return ConfigError(
        f"{what} cannot be taken over: {why}. Give a URL instead, such as"
        " postgresql://user@host/database or sqlite:///file.db."
    )
