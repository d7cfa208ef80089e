"""Which processes hold SQLite's locks: the writer, and readers that hold up emptying the log.

SQLite takes the locks of a write-ahead log on single bytes of the `-shm` file.
"""

from __future__ import annotations

from pathlib import Path

from tenure.backends.sqlite.locks.kernel_locks import Process, describe, locks_on
from tenure.backends.sqlite.rights import beside

WRITE_LOCK_BYTE = 120
READ_LOCK_BYTES = (123, 127)
RESERVED_BYTE = 0x40000001  # in the database itself, if it has no write-ahead log


def find_writer(path: Path) -> Process | None:
    """The process that has the write lock; None if there is none, or the kernel hides it."""
    for file, byte in ((beside(path, "-shm"), WRITE_LOCK_BYTE), (path, RESERVED_BYTE)):
        for lock in locks_on(file):
            if lock.exclusive and lock.covers(byte, byte):
                return describe(lock.pid)
    return None


def find_readers(path: Path) -> set[int]:
    """The processes inside a read transaction at this instant, as far as they can be seen."""
    return {lock.pid for lock in locks_on(beside(path, "-shm")) if lock.covers(*READ_LOCK_BYTES)}
