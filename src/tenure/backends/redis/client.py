"""Connections to Redis: from a URL, through Sentinel, to a Cluster, or a client handed in.

Forms of URL:

    redis://host:6379/0                        rediss://… for TLS, unix:///path
    redis+sentinel://host:26379,host2/service  asks the sentinels for the master of that service
    redis+cluster://host:7000,host2:7000
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from importlib.resources import files
from typing import Any, NoReturn, TypeVar
from urllib.parse import unquote, urlsplit

import redis.asyncio as redis
from redis import exceptions
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

from tenure.errors import ConfigError, StoreError, StoreUnavailable

T = TypeVar("T")
LIMIT = 5.0
_OPTIONS: dict[str, Any] = {
    "socket_timeout": LIMIT,
    "socket_connect_timeout": LIMIT,
    "decode_responses": True,
    # Our callers try again by themselves, and must know of it: a subscription that the driver made
    # anew on its own has another client id, and a release that it sent twice looks like a loss.
    "retry": Retry(NoBackoff(), 0),
}


def connect(url: str) -> Any:
    """A client for this URL. Connects when it is first used."""
    options = dict(_OPTIONS)
    parts = urlsplit(url)
    if parts.scheme in ("redis+sentinel", "rediss+sentinel"):
        return _sentinel(parts, options)
    if parts.scheme in ("redis+cluster", "rediss+cluster"):
        nodes = [ClusterNode(host, port) for host, port in _hosts(parts.netloc, 6379)]
        del options["retry"]  # it follows slots that moved by trying again
        return RedisCluster(
            startup_nodes=nodes, ssl=parts.scheme.startswith("rediss"), **_auth(parts), **options
        )
    return redis.Redis.from_url(url, **options)


def like(client: Any) -> Any:
    """A client of ours with the settings of one that was handed in, blocking or not."""
    pool = getattr(client, "connection_pool", None)
    settings = dict(getattr(pool, "connection_kwargs", {}))
    if pool is None or "connection_pool" in settings:
        raise ConfigError(
            f"of {type(client).__qualname__} no settings can be taken over. Give a URL:"
            " redis+sentinel://host:26379/service or redis+cluster://host:7000."
        )
    known = ("host", "port", "db", "username", "password", "path", "credential_provider")
    options: dict[str, Any] = {name: settings[name] for name in known if name in settings}
    options |= {name: value for name, value in settings.items() if name.startswith("ssl_")}
    if "path" in options:
        options["unix_socket_path"] = options.pop("path")
    options["ssl"] = "SSL" in getattr(pool, "connection_class", type(None)).__name__
    return redis.Redis(**options, **_OPTIONS)


def _sentinel(parts: Any, options: dict[str, Any]) -> Any:
    service, _, database = parts.path.strip("/").partition("/")
    if not service:
        raise ConfigError(
            "a Sentinel URL names the service: redis+sentinel://host:26379,host2:26379/mymaster"
        )
    sentinel: Any = Sentinel(_hosts(parts.netloc, 26379), socket_timeout=LIMIT)  # type: ignore[no-untyped-call]
    if parts.scheme.startswith("rediss"):
        options["ssl"] = True
    return sentinel.master_for(service, db=int(database or 0), **_auth(parts), **options)


def _hosts(netloc: str, port: int) -> list[tuple[str, int]]:
    hosts = []
    for part in netloc.rpartition("@")[2].split(","):
        host, _, given = part.partition(":")
        hosts.append((host, int(given) if given else port))
    return hosts


def _auth(parts: Any) -> dict[str, Any]:
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    return {
        **({"username": unquote(user)} if user else {}),
        **({"password": unquote(password)} if password else {}),
    }


def script(name: str) -> str:
    return files("tenure.backends.redis").joinpath(f"lua/{name}.lua").read_text(encoding="utf-8")


async def bounded(call: Awaitable[T]) -> T:
    """Await it, for a limited time, and tell its failures as ours."""
    try:
        async with asyncio.timeout(LIMIT):
            return await call
    except TimeoutError as error:
        raise StoreUnavailable(f"Redis did not answer within {LIMIT:g} s.") from error
    except (exceptions.RedisError, OSError) as error:
        translate(error)


def translate(error: Exception) -> NoReturn:
    """The driver's error as one of ours, with what to do about it."""
    text = str(error).strip() or type(error).__name__
    if isinstance(error, exceptions.AuthenticationError | exceptions.NoPermissionError):
        raise StoreError(f"Redis refused: {text}. Check user, password and ACL.") from error
    if isinstance(error, exceptions.ReadOnlyError):
        raise StoreUnavailable(
            f"this Redis is a replica and cannot be written ({text}). Give the master's address,"
            " or use a redis+sentinel:// URL."
        ) from error
    if isinstance(error, exceptions.OutOfMemoryError):
        raise StoreUnavailable(f"Redis is out of memory ({text}). Nothing was changed.") from error
    if isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError | OSError):
        raise StoreUnavailable(f"Redis is not available: {text}") from error
    raise StoreError(f"Redis: {text}") from error


async def close(client: Any) -> None:
    with suppress(exceptions.RedisError, OSError):
        await client.aclose()
