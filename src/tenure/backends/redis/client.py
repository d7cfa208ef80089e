"""Calls to Redis: bounded in time, their failures told as ours."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Awaitable, Coroutine, Iterator
from contextlib import suppress
from importlib.resources import files
from typing import Any, NoReturn, TypeVar

from redis import exceptions

from tenure.address import NOWHERE
from tenure.backends.apart import apart
from tenure.backends.redis.target import LIMIT
from tenure.errors import StoreError, StoreUnavailable

T = TypeVar("T")
FAILURES = (exceptions.RedisError, exceptions.RedisClusterException, OSError)
"""What the driver raises; its own base class is not the base of all of them."""
_REPEATED = re.compile(r",? with args beginning with:.*", re.DOTALL)
_REFUSED_FOR_NOW = ("MISCONF", "NOREPLICAS", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN")


def script(name: str) -> str:
    return files("tenure.backends.redis").joinpath(f"lua/{name}.lua").read_text(encoding="utf-8")


async def bounded(call: Awaitable[T]) -> T:
    """Await it, for a limited time, and tell its failures as ours. When this ends, its connection
    is closed or back in the pool."""
    try:
        return await apart(call, LIMIT)
    except TimeoutError as error:
        raise StoreUnavailable(f"Redis did not answer within {LIMIT:g} s.") from error
    except FAILURES as error:
        translate(error)


class Calls:
    """Calls through a client, until it is to be closed.

    Once closed, redis-py connects anew for whoever uses it, and nobody would end that connection.
    """

    def __init__(self) -> None:
        self._under_way: set[asyncio.Future[None]] = set()
        self._over = False

    async def make(self, call: Coroutine[Any, Any, T]) -> T:
        if self._over:
            call.close()
            raise StoreUnavailable("the connection to Redis is not open: it was closed meanwhile.")
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._under_way.add(ended)
        try:
            return await bounded(call)
        finally:
            self._under_way.discard(ended)
            ended.cancel()

    async def end(self) -> None:
        """Let none begin, and those under way come to their end."""
        self._over = True
        if self._under_way:
            await asyncio.wait(self._under_way)


def translate(error: Exception) -> NoReturn:
    """The driver's error as one of ours, with what to do about it."""
    _forget_arguments(error)
    text = str(error).strip() or type(error).__name__
    _not_trusted(error)
    if isinstance(error, exceptions.AuthenticationError):
        raise StoreError(
            f"Redis refused us: {text.rstrip('.')}. Check user and password."
        ) from error
    if isinstance(error, exceptions.NoPermissionError):
        raise StoreError(
            f"Redis refused: {text.rstrip('.')}. Check the ACL of this user;"
            f" `{NOWHERE.command('doctor')}` says which rights it lacks."
        ) from error
    # Redis 6 tells what went wrong within a script in the middle of a longer text.
    if isinstance(error, exceptions.ReadOnlyError) or "-READONLY " in text:
        raise StoreUnavailable(
            f"this Redis is a replica and cannot be written ({text}). Give the master's address,"
            " or use a redis+sentinel:// URL."
        ) from error
    if isinstance(error, exceptions.OutOfMemoryError) or "-OOM " in text:
        raise StoreUnavailable(
            f"the memory of this Redis is full ({text.split(' script:')[0].rstrip('.')}). Nothing"
            " was changed. Free some, or raise it: CONFIG SET maxmemory."
        ) from error
    if isinstance(error, exceptions.MovedError | exceptions.AskError):
        raise StoreError(
            f"this Redis is a node of a cluster ({text}). Write redis+cluster://host:port."
        ) from error
    if "Cluster mode is not enabled" in text:
        raise StoreError(
            "this Redis is not a cluster, or this user may not ask (CLUSTER SLOTS). Write"
            " redis://host:port, or grant +cluster|slots +command."
        ) from error
    lost = exceptions.ConnectionError | exceptions.TimeoutError | exceptions.RedisClusterException
    if text.startswith("No master found"):
        text = text.partition(" : ")[0]  # what follows is the whole of each sentinel's client
    if isinstance(error, lost | OSError) or text.startswith(_REFUSED_FOR_NOW):
        raise StoreUnavailable(f"Redis is not available: {text}") from error
    raise StoreError(f"Redis: {text}") from error


def _forget_arguments(error: Exception) -> None:
    """A server that does not know AUTH or HELLO repeats what came with it: the password."""
    for each in _causes(error):
        if isinstance(each, exceptions.RedisError):
            each.args = tuple(
                _REPEATED.sub("", part) if isinstance(part, str) else part for part in each.args
            )


def _not_trusted(error: BaseException) -> None:
    """A certificate does not become better by waiting: say what to change."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            why = cause.verify_message.rstrip(".")
            raise StoreError(
                f"the certificate of this Redis is not accepted: {why}. If it is from a CA of your"
                " own, name it: rediss://host?ssl_ca_certs=/path/ca.pem. If the name does not"
                " match, connect by a name that is in the certificate."
            ) from error


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


async def close(client: Any) -> None:
    pool = getattr(client, "connection_pool", None)
    sentinels = getattr(getattr(pool, "sentinel_manager", None), "sentinels", ())
    for each in (client, *sentinels):
        with suppress(StoreError):
            await bounded(each.aclose())
