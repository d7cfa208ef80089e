"""SQLite across a fork.

SQLite records in memory which locks a process has on its files. A forked child inherits the record
but not the locks. A connection that it opens to the same file then believes that it holds locks
which it does not hold, and its commits may vanish with the write-ahead log when another process
deletes that. Only closing the inherited connections clears the record, and that is safe only if
none was in the middle of a call. Hence:

- Before a fork, the forking thread waits until every connection is between two calls. A call takes
  a few milliseconds; waiting for another process's lock does not count as one.
- The child closes what it inherited, at once. The parent still has the file open, so this writes
  nothing to it, and the parent keeps its locks.

The child cannot close a connection that did not come to rest in time (a disk that hangs), nor any
if C code forked without announcing it (uWSGI without lazy-apps). Then it may not open the file, and
gets an error that says so.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

PATIENCE = 5.0


class Forkable(Protocol):
    """What must be between two calls when the process forks."""

    def hold_still(self, patience: float) -> bool: ...

    def go_on(self) -> None: ...

    def close_inherited(self) -> None:
        """In the child: close."""
        ...

    def is_inherited(self, path: Path) -> bool:
        """Is this a connection to that file which another process opened?"""
        ...


_all: WeakSet[Forkable] = WeakSet()
_still: list[Forkable] = []
_restless: list[Forkable] = []
_never_closed: list[Forkable] = []
_forking = threading.Lock()
_asked = False


def watch(connection: Forkable) -> None:
    """Take care of this connection when the process forks."""
    with _forking:
        _all.add(connection)


def may_open(path: Path) -> bool:
    """Is this process free of inherited connections to this file?"""
    with _forking:
        return not any(c.is_inherited(path) for c in [*_all, *_never_closed])


def _before() -> None:
    global _asked  # noqa: PLW0603 - the two sides of a fork have nothing else in common
    _forking.acquire()  # released on the other side of the fork
    _asked = True
    for connection in list(_all):
        if connection.hold_still(PATIENCE):
            _still.append(connection)
        else:
            _restless.append(connection)


def _in_parent() -> None:
    for connection in _still:
        connection.go_on()
    _over()
    _forking.release()


def _in_child() -> None:
    global _forking  # noqa: PLW0603 - without the call before, any thread may have had it
    _forking = threading.Lock()
    _never_closed.extend(_restless if _asked else _all)
    for connection in _still:
        connection.close_inherited()
        connection.go_on()
    _all.clear()
    _over()


def _over() -> None:
    global _asked  # noqa: PLW0603
    _asked = False
    _still.clear()
    _restless.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
