"""Locks on single bytes of a file, which the kernel frees when their owner is gone.

Linux has two kinds, and each sees the other's. A *POSIX* lock belongs to the process: closing any
descriptor of the file, anywhere in the process, drops it. A lock of an *open file description*
belongs to what `os.open` made: it stays until the last descriptor of that is closed, so a process
that copies or hashes the file keeps it. A forked child has such a descriptor too, and must close
it (lockfile.py).

Where the kernel knows only the first kind, a lock that may have been dropped is taken again.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
from typing import Protocol


class ByteLocks(Protocol):
    """Locks on bytes of the file behind one descriptor. None of these waits."""

    lasting: bool
    """They end with the descriptor, and at no other time."""

    def take(self, byte: int) -> bool:
        """Lock it for oneself alone. Locking again what one has is no change."""
        ...

    def share(self, byte: int, length: int) -> bool:
        """Lock these together with others who do the same."""
        ...

    def free(self, byte: int, length: int = 1) -> None: ...

    def is_free(self, byte: int) -> bool:
        """Does nobody else have a lock on it? One's own locks do not count."""
        ...


if sys.platform != "win32":
    import fcntl

    _HELD_ELSEWHERE = (errno.EACCES, errno.EAGAIN)

    class PosixLocks:
        """Of this process."""

        lasting = False

        def __init__(self, file: int) -> None:
            self._file = file

        def take(self, byte: int) -> bool:
            return self._try(fcntl.LOCK_EX, byte, 1)

        def share(self, byte: int, length: int) -> bool:
            return self._try(fcntl.LOCK_SH, byte, length)

        def free(self, byte: int, length: int = 1) -> None:
            fcntl.lockf(self._file, fcntl.LOCK_UN, length, byte)

        def is_free(self, byte: int) -> bool:
            if not self.share(byte, 1):
                return False
            self.free(byte)
            return True

        def _try(self, kind: int, byte: int, length: int) -> bool:
            try:
                fcntl.lockf(self._file, kind | fcntl.LOCK_NB, length, byte)
            except OSError as error:
                if error.errno in _HELD_ELSEWHERE:
                    return False
                raise
            return True


if sys.platform == "linux":
    # struct flock: type, whence, start, length, pid; the compiler's padding is Python's too.
    _FLOCK = struct.Struct("hhqqi4x")

    class DescriptionLocks:
        """Of the open file description behind the descriptor."""

        lasting = True

        def __init__(self, file: int) -> None:
            self._file = file

        def take(self, byte: int) -> bool:
            return self._try(fcntl.F_WRLCK, byte, 1)

        def share(self, byte: int, length: int) -> bool:
            return self._try(fcntl.F_RDLCK, byte, length)

        def free(self, byte: int, length: int = 1) -> None:
            self._ask(fcntl.F_OFD_SETLK, fcntl.F_UNLCK, byte, length)

        def is_free(self, byte: int) -> bool:
            return self._ask(fcntl.F_OFD_GETLK, fcntl.F_WRLCK, byte, 1) == fcntl.F_UNLCK

        def _try(self, kind: int, byte: int, length: int) -> bool:
            try:
                self._ask(fcntl.F_OFD_SETLK, kind, byte, length)
            except OSError as error:
                if error.errno in _HELD_ELSEWHERE:
                    return False
                raise
            return True

        def _ask(self, command: int, kind: int, byte: int, length: int) -> int:
            """Returns the kind of lock that is in the way, if the command asks for it."""
            asked = _FLOCK.pack(kind, os.SEEK_SET, byte, length, 0)
            answer = fcntl.fcntl(self._file, command, asked)
            found: int = _FLOCK.unpack(answer)[0]
            return found


def locks_of(file: int) -> ByteLocks | None:
    """The best that this kernel has for this file; None on Windows, which has neither."""
    if sys.platform == "win32":
        return None
    if sys.platform == "linux":
        locks = DescriptionLocks(file)
        try:
            locks.is_free(0)
        except OSError:
            pass  # before Linux 3.15, in a sandbox, on an unusual file system
        else:
            return locks
    return PosixLocks(file)
