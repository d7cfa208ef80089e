"""A time limit for a whole call of a blocking client, however many commands it sends.

redis-py limits each wait separately: for each address of the host, for every piece of an answer.
One call can add up many of those. The connections made here wait only until the deadline of the
call that uses them.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

from tenure.backends.redis.target import LIMIT
from tenure.process.clock import SystemClock

_clock = SystemClock()
_SHORTEST = 0.001  # zero would mean "do not wait at all", and raise another error


class _Call(threading.local):
    """The call that this thread is making."""

    until = float("inf")


_call = _Call()


def begin() -> None:
    """This thread begins a call, which may take `LIMIT` seconds."""
    _call.until = _clock.monotonic() + LIMIT


def _left(longest: float | None) -> float:
    left = max(_call.until - _clock.monotonic(), _SHORTEST)
    return min(left, LIMIT if longest is None else longest)


def limit(pool: Any) -> None:
    """Make the connections of this pool observe the deadline."""
    pool.connection_class = _limited(pool.connection_class)


@cache
def _limited(kind: type) -> type:
    return type(f"Limited{kind.__name__}", (_Limited, kind), {})


class _Limited:
    """Mixed into a connection class of redis-py."""

    _longest: float | None = None

    @property
    def socket_connect_timeout(self) -> float:
        """redis-py reads it before it tries each address of the host."""
        return _left(self._longest)

    @socket_connect_timeout.setter
    def socket_connect_timeout(self, value: float | None) -> None:
        self._longest = value

    def _connect(self) -> Any:
        return _Socket(super()._connect())  # type: ignore[misc]

    def read_response(self, *args: Any, **options: Any) -> Any:
        # If an answer does not come in time, the driver keeps a connection to a master behind
        # Sentinel open. The next call would then read that late answer as its own.
        options["disconnect_on_error"] = True
        return super().read_response(*args, **options)  # type: ignore[misc]


class _Socket:
    """A socket whose waits end at the deadline at the latest."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._longest: float | None = socket.gettimeout()

    def settimeout(self, seconds: float | None) -> None:
        self._longest = seconds
        self._socket.settimeout(seconds)

    def recv(self, *args: Any) -> Any:
        self._keep_to_deadline()
        return self._socket.recv(*args)

    def recv_into(self, *args: Any) -> Any:
        self._keep_to_deadline()
        return self._socket.recv_into(*args)

    def sendall(self, data: Any) -> None:
        self._keep_to_deadline()
        self._socket.sendall(data)

    def _keep_to_deadline(self) -> None:
        if self._longest != 0:  # 0 only checks whether something has arrived
            self._socket.settimeout(_left(self._longest))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)
