"""Waiting for SIGTERM or SIGINT without ever missing one.

A signal that arrives just before a thread begins to wait for a lock does not interrupt that wait:
Python runs the handler when the wait ends, which may be never. So this waits on a socket that the
interpreter itself writes to the moment a signal arrives (`signal.set_wakeup_fd`).
"""

from __future__ import annotations

import select
import signal
import socket
from types import FrameType
from typing import Any, Self

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """From entering to leaving the block, signals ask for a polite end; a second one insists."""

    def __init__(self) -> None:
        self._asked = 0
        self._previous: dict[signal.Signals, Any] = {}
        self._previous_wakeup = -1

    def __enter__(self) -> Self:
        self._read, self._write = socket.socketpair()
        self._read.setblocking(False)
        self._write.setblocking(False)
        self._previous_wakeup = signal.set_wakeup_fd(
            self._write.fileno(), warn_on_full_buffer=False
        )
        for number in _SIGNALS:
            self._previous[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_wakeup)
        self._read.close()
        self._write.close()

    def wait(self) -> None:
        """Until one has come, or had come already."""
        while not self._asked:
            select.select([self._read], [], [])
            try:
                self._read.recv(64)
            except BlockingIOError:
                continue

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._asked += 1
        if self._asked > 1:
            raise KeyboardInterrupt
