"""SQLite's shared locks, taken a second time, so that copying the files does not drop them.

While a database is open, SQLite has a shared lock on it, and one on its `-shm`. They tell other
processes not to delete the write-ahead log when they close the database, and not to reset the
`-shm` when they open it. They are POSIX locks: a task in this process that copies the folder drops
them. The next process that opens and closes the database would then delete the log, and everything
that this one commits from then on would land in a deleted file. So Tenure also locks the same bytes
with open file description locks (bytelocks.py), if the kernel has them.

The same trap is set for Tenure itself: closing a descriptor of these files drops SQLite's locks. So
a descriptor is kept until the process has no other one of that file.

The short locks that SQLite takes while it reads or writes cannot be guarded in this way.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from pathlib import Path

from tenure.backends.sqlite.locks.bytelocks import locks_of
from tenure.backends.sqlite.rights import beside

IS_OPEN = (0x40000002, 510)
"""The bytes of the database that are locked while it is open: the first, and how many."""
HAS_INDEX = (128, 1)
"""The byte of the `-shm` that is locked while it is mapped."""
_OPEN = Path("/proc/self/fd")
_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)

_taken: dict[tuple[int, int], SharedLocks] = {}
_unused: list[int] = []
_guard = threading.Lock()


class SharedLocks:
    """The locks on one database, shared by all backends in this process. Use `take`."""

    def __init__(self, database: Path) -> None:
        self.users = 0
        self._locked: list[tuple[int, tuple[int, int]]] = []
        for file, place in ((beside(database, ""), IS_OPEN), (beside(database, "-shm"), HAS_INDEX)):
            with suppress(FileNotFoundError):  # a file system on which SQLite has no log
                self._lock(os.open(file, _FLAGS), place)

    @classmethod
    def take(cls, database: Path) -> SharedLocks | None:
        """Call this once SQLite has opened it; None if the platform has no such locks."""
        if sys.platform != "linux":
            return None
        with _guard:
            stat = database.stat()
            locks = _taken.get((stat.st_dev, stat.st_ino))
            if locks is None:
                locks = _taken[stat.st_dev, stat.st_ino] = cls(database)
            locks.users += 1
            return locks

    def free(self) -> None:
        """Call this before SQLite closes it: as the last user, SQLite deletes the log."""
        with _guard:
            self.users -= 1
            if self.users == 0:
                for file, place in self._locked:
                    self._unlock(file, place)
                for key in [key for key, locks in _taken.items() if locks is self]:
                    del _taken[key]

    def _lock(self, file: int, place: tuple[int, int]) -> None:
        locks = locks_of(file)
        if locks is not None and locks.lasting and locks.share(*place):
            self._locked.append((file, place))
        else:
            _unused.append(file)

    def _unlock(self, file: int, place: tuple[int, int]) -> None:
        locks = locks_of(file)
        assert locks is not None
        locks.free(*place)
        _unused.append(file)


def tidy() -> None:
    """Close unused descriptors, if that no longer drops a lock of SQLite's."""
    with _guard:
        if not _unused:
            return
        others = {_file(link) for link in _OPEN.iterdir() if int(link.name) not in _unused}
        for file in list(_unused):
            if _file(_OPEN / str(file)) not in others:
                _unused.remove(file)
                os.close(file)


def _file(link: Path) -> tuple[int, int] | None:
    try:
        stat = link.stat()
    except OSError:
        return None  # the descriptor of the listing itself, which is closed by now
    return stat.st_dev, stat.st_ino


def _before_fork() -> None:
    _guard.acquire()


def _in_parent() -> None:
    _guard.release()


def _in_child() -> None:
    """The locks are the parent's. The child has no connections yet, so closing is safe."""
    global _guard  # noqa: PLW0603 - another thread of the parent may have had it
    _guard = threading.Lock()
    for file in [*_unused, *(file for locks in _taken.values() for file, _ in locks._locked)]:
        os.close(file)
    _unused.clear()
    _taken.clear()


if sys.platform == "linux":
    os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
