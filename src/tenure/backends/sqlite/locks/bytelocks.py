"""Locks on single bytes of a file, which the kernel frees when their owner is gone.

Linux has two kinds, which conflict with each other. A *POSIX* lock belongs to the process: closing
any descriptor of the file, anywhere in the process, drops it. An *open file description* lock
belongs to one `os.open`: it stays until the last descriptor of that is closed, so a process that
copies or hashes the file keeps it. A forked child inherits such a descriptor, and must close it
(lockfile.py).

If the kernel has only the first kind, a lock that may have been dropped is taken again.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
from typing import Protocol


class ByteLocks(Protocol):
    """Locks on bytes of the file behind one descriptor. No method waits."""

    lasting: bool
    """Do they end only with the descriptor?"""

    def take(self, byte: int) -> bool:
        """Lock it exclusively. Taking a lock twice changes nothing."""
        ...

    def share(self, byte: int, length: int) -> bool:
        """Lock these bytes in shared mode."""
        ...

    def free(self, byte: int, length: int = 1) -> None: ...

    def is_free(self, byte: int) -> bool:
        """Is it free of locks, other than our own?"""
        ...


if sys.platform != "win32":
    import fcntl

    _HELD_ELSEWHERE = (errno.EACCES, errno.EAGAIN)

    class PosixLocks:
        """Locks that belong to this process."""

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
        """Locks that belong to the open file description behind the descriptor."""

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
            """Returns the kind of the conflicting lock, if the command asks for that."""
            asked = _FLOCK.pack(kind, os.SEEK_SET, byte, length, 0)
            answer = fcntl.fcntl(self._file, command, asked)
            found: int = _FLOCK.unpack(answer)[0]
            return found


def locks_of(file: int) -> ByteLocks | None:
    """The better kind that this kernel has for this file; None on Windows, which has neither."""
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
