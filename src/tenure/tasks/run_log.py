"""What a task tells while it runs: lines of its log, and how far it is.

Both are kept in memory, within a fixed size, until the node brings them to the store. Any thread or
loop may add to them. Nothing that a task says here can fail its run, except a progress that is not
a number: that is a mistake in the code.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from tenure.errors import ConfigError
from tenure.model import Report
from tenure.printable import brief, storable

LOG_LIMIT = 65_536
"""How many bytes of an attempt's log are kept: the first half, and the last."""
MESSAGE_LENGTH = 500
"""How many characters of a progress message are kept."""
_HALF = LOG_LIMIT // 2


class RunLog:
    """The log and the progress of one attempt."""

    def __init__(self, changed: Callable[[], None] | None = None) -> None:
        """`changed` is called, on any thread, when there is something new to be taken."""
        self._changed = changed
        self._lock = threading.Lock()
        self._first = bytearray()
        self._last = bytearray()
        self._full = False
        """Is the first half complete?"""
        self._dropped = 0
        self._progress: float | None = None
        self._message = ""
        self._new = False

    def add(self, text: object) -> None:
        """A line, or several."""
        line = storable(str(text)).encode()
        if not line.endswith(b"\n"):
            line += b"\n"
        with self._lock:
            if not self._full:
                line = self._begin(line)
            self._last += line
            if len(self._last) > LOG_LIMIT:  # not each time: cutting moves all that is left
                self._cut()
        self._tell()

    def progress(self, fraction: float | None, message: object = "") -> None:
        done, said = share(fraction), storable(str(message)[:MESSAGE_LENGTH])
        with self._lock:
            self._progress, self._message = done, said
        self._tell()

    def take(self) -> Report | None:
        """All that was told, if any of it is new since the last call."""
        with self._lock:
            new, self._new = self._new, False
        return self.report() if new else None

    def give_back(self) -> None:
        """What was taken did not arrive: it is new, still."""
        with self._lock:
            self._new = True

    def report(self) -> Report:
        """All that was told."""
        with self._lock:
            self._cut()
            log = self._first.decode()
            if self._dropped:
                start = "" if log.endswith("\n") else "\n"
                log += f"{start}[… {self._dropped:,} bytes are missing here …]\n"
            log += self._last.decode()
            return Report(self._progress, self._message, log, self._dropped)

    def _begin(self, line: bytes) -> bytes:
        """Fill the first half; returns what does not fit."""
        room = _HALF - len(self._first)
        if len(line) <= room:
            self._first += line
            return b""
        self._full = True
        while room and line[room] & 0xC0 == 0x80:  # in the middle of a character
            room -= 1
        self._first += line[:room]
        return line[room:]

    def _cut(self) -> None:
        """Keep no more of the end than its half."""
        start = len(self._last) - _HALF
        if start <= 0:
            return
        while self._last[start] & 0xC0 == 0x80:
            start += 1
        del self._last[:start]
        self._dropped += start

    def _tell(self) -> None:
        with self._lock:
            known, self._new = self._new, True
        if not known and self._changed is not None:
            with suppress(RuntimeError):  # the loop is closed: the node has stopped
                self._changed()


def pieces(text: str) -> Iterator[str]:
    """A text that may be of any size, so that each piece can be sent by itself. It is cut where
    nothing is kept: both ends are whole."""
    last = len(text) - LOG_LIMIT if len(text) > 2 * LOG_LIMIT else 0
    for start in range(0, last, LOG_LIMIT):
        yield text[start : min(start + LOG_LIMIT, last)]
    yield text[last:]


def share(fraction: Any) -> float | None:
    """From 0 to 1. What lies a little beyond is rounding; and not a number, 0/0, is unknown."""
    if fraction is None:
        return None
    try:
        if isinstance(fraction, str | bytes):
            raise TypeError
        done = float(fraction)
    except OverflowError:
        return 1.0 if fraction > 0 else 0.0
    except (TypeError, ValueError):
        raise ConfigError(
            f"run.progress takes a number from 0 to 1, or None, not {brief(fraction)}."
            ' For page 12 of 30: run.progress(12 / 30, "page 12 of 30").'
        ) from None
    return None if done != done else min(1.0, max(0.0, done))
