"""Calls to Redis: bounded in time, with errors translated into ours."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Awaitable, Coroutine, Iterator
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

from redis import exceptions

from tenure.backends.address import NOWHERE
from tenure.backends.redis.target import LIMIT
from tenure.backends.shared.causes import alone, caused
from tenure.backends.shared.driver_calls import apart
from tenure.errors import StoreError, StoreUnavailable

T = TypeVar("T")
FAILURES = (exceptions.RedisError, exceptions.RedisClusterException, OSError)
"""What the driver raises; these have no common base class."""
_REPEATED = re.compile(r",? with args beginning with:.*", re.DOTALL)
_IN_SCRIPT = ("ACL failure in script", "-NOPERM ", "The user executing the script can't run")
"""How servers say that a command inside a script is not allowed."""
_REFUSED_FOR_NOW = ("MISCONF", "NOREPLICAS", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN")


async def bounded(call: Awaitable[T]) -> T:
    """Await it for a limited time, and translate its errors. When this ends, its connection is
    closed or back in the pool."""
    try:
        return await apart(call, LIMIT)
    except TimeoutError:
        raise StoreUnavailable(f"Redis did not answer within {LIMIT:g} s.") from None
    except FAILURES as error:
        translate(error)
    except AttributeError as error:
        # Python 3.12 cannot write to a connection that has just been lost, and stumbles over it.
        if "_add_writer" not in str(error):
            raise
        raise StoreUnavailable("the connection to Redis was lost.") from None


class Calls:
    """Calls through a client, until it is closed.

    A closed client of redis-py reconnects for the next call, and nothing would close that
    connection.
    """

    def __init__(self) -> None:
        self._under_way: set[asyncio.Future[None]] = set()
        self._over = False

    async def make(self, call: Coroutine[Any, Any, T]) -> T:
        if self._over:
            call.close()
            raise StoreUnavailable("the connection to Redis was closed meanwhile.")
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._under_way.add(ended)
        try:
            return await bounded(call)
        finally:
            self._under_way.discard(ended)
            ended.cancel()

    async def end(self) -> None:
        """Let no call begin, and wait for those under way."""
        self._over = True
        if self._under_way:
            await asyncio.wait(self._under_way)


def translate(error: Exception) -> NoReturn:
    """Raise the driver's error as one of ours, with what to do about it."""
    _forget_arguments(error)
    told = caused(_not_trusted(error) or _translated(error), error)
    del error  # this frame is part of the traceback
    alone(told)


def _translated(error: Exception) -> StoreError:
    text = str(error).strip() or type(error).__name__
    if isinstance(error, exceptions.AuthenticationError):
        return StoreError(f"Redis refused the login: {text.rstrip('.')}. Check user and password.")
    if isinstance(error, exceptions.NoPermissionError) or any(t in text for t in _IN_SCRIPT):
        return StoreError(
            f"Redis refused a command: {text.rstrip('.')}. `{NOWHERE.command('doctor')}` says which"
            f" rights this user lacks, and `{NOWHERE.command('migrate', '--roles')}` prints the ACL"
            " of a reader and of a node."
        )
    # Redis 6 puts the error of a script into the middle of a longer text.
    if isinstance(error, exceptions.ReadOnlyError) or "-READONLY " in text:
        return StoreUnavailable(
            f"this Redis is a replica and cannot be written ({text}). Give the master's address,"
            " or use a redis+sentinel:// URL."
        )
    if isinstance(error, exceptions.OutOfMemoryError) or "-OOM " in text:
        return StoreUnavailable(
            f"the memory of this Redis is full ({text.split(' script:')[0].rstrip('.')}). Nothing"
            " was changed. Free some, or raise it: CONFIG SET maxmemory."
        )
    if isinstance(error, exceptions.MovedError | exceptions.AskError):
        return StoreError(
            f"this Redis is a node of a cluster ({text}). Write redis+cluster://host:port."
        )
    if "Cluster mode is not enabled" in text:
        return StoreError(
            "this Redis is not a cluster, or this user may not ask (CLUSTER SLOTS). Write"
            " redis://host:port, or grant +cluster|slots +command."
        )
    if "DB index is out of range" in text:
        return StoreError(
            f"Redis: {text.rstrip('.')}. The number at the end of the URL must be below the"
            " server's setting databases, which is 16 unless it was changed."
        )
    lost = exceptions.ConnectionError | exceptions.TimeoutError | exceptions.RedisClusterException
    if text.startswith("No master found"):
        text = text.partition(" : ")[0]  # what follows shows each sentinel's client
    if isinstance(error, lost | OSError) or text.startswith(_REFUSED_FOR_NOW):
        return StoreUnavailable(f"Redis is not available: {text}")
    return StoreError(f"Redis: {text}")


def _forget_arguments(error: Exception) -> None:
    """A server that does not know AUTH or HELLO repeats their arguments: the password."""
    for each in _causes(error):
        if isinstance(each, exceptions.RedisError):
            each.args = tuple(
                _REPEATED.sub("", part) if isinstance(part, str) else part for part in each.args
            )


def _not_trusted(error: BaseException) -> StoreError | None:
    """An error about the certificate, which no retry would cure: say what to change."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            why = cause.verify_message.rstrip(".")
            return StoreError(
                f"the certificate of this Redis is not accepted: {why}. If it is from a CA of your"
                " own, name it: rediss://host?ssl_ca_certs=/path/ca.pem. If the name does not"
                " match, connect by a name that is in the certificate."
            )
    return None


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
