"""The lock file beside the database: proof of death, and wake-ups, with the kernel's help alone.

`<database>-tenure` holds no data. Each open backend locks one byte of it, far beyond its end, at a
random place (its *slot*). The kernel frees that lock when the process ends, however it ends, and
on Linux at no other time (bytelocks.py). So a free slot proves that its holder is dead, even in
another container, as long as both share a kernel.

All backends of a process share one descriptor of the file. A forked child closes it at once:
otherwise a child that outlives its parent would make the dead parent look alive.

The file begins with 512 numbers. Each topic is hashed to one of them. A process wakes others by
writing a new random number, and notices it by reading now and then: a system call, not a query.
"""

from __future__ import annotations

import os
import secrets
import threading
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from tenure.backends.sqlite.locks.bytelocks import locks_of
from tenure.backends.sqlite.locks.kernel_locks import describe, locks_on
from tenure.backends.sqlite.rights import beside, open_lock_file
from tenure.errors import StoreUnavailable
from tenure.process.clock import SystemClock

PATIENCE = 2.0
"""How many seconds to wait for another process that is just creating the file."""
_TOPICS = 512
_NUMBER = 8
_ID_AT = _TOPICS * _NUMBER
_ID_LENGTH = 16
SIZE = _ID_AT + _ID_LENGTH
_SLOTS_FROM = 1 << 20
_SLOT_BITS = 60

_files: dict[tuple[int, int], LockFile] = {}
_guard = threading.Lock()
_real = SystemClock()


def lock_file_of(database: Path) -> Path:
    return beside(database, "-tenure")


class LockFile:
    """The lock file of one database, as this process has it open. Use `LockFile.open`."""

    def __init__(self, path: Path, database: Path) -> None:
        self.path = path
        self._pid = os.getpid()
        self._file = open_lock_file(path, database, SIZE)
        self._locks = locks_of(self._file)
        self._slots: set[int] = set()
        self._users = 0
        try:
            self.id = self._read_or_write_id()
        except BaseException:
            os.close(self._file)
            raise

    @classmethod
    def open(cls, database: Path) -> LockFile:
        """The lock file of this database; the same object for all users in this process.

        May block as long as `PATIENCE`.
        """
        path = lock_file_of(database)
        with _guard:
            file = None
            with suppress(FileNotFoundError):
                stat = path.lstat()
                file = _files.get((stat.st_dev, stat.st_ino))
            if file is None or file._pid != os.getpid():
                file = cls(path, database)
                stat = os.fstat(file._file)
                _files[stat.st_dev, stat.st_ino] = file
            file._users += 1
            return file

    def close(self) -> None:
        with _guard:
            self._users -= 1
            if self._users == 0 and self in _files.values():
                for key in [key for key, file in _files.items() if file is self]:
                    del _files[key]
                os.close(self._file)

    def take_slot(self) -> int | None:
        """Lock a new byte; None if the platform has no such locks."""
        if self._locks is None:
            return None
        slot = _SLOTS_FROM + secrets.randbits(_SLOT_BITS)
        if not self._locks.take(slot):
            raise self._held(slot)
        self._slots.add(slot)
        return slot

    def affirm(self, slot: int | None) -> int | None:
        """Make sure that our slot is locked: take the lock again if the kernel may have dropped
        it."""
        if slot is not None and self._locks is not None and not self._locks.lasting:
            with suppress(OSError):
                self._locks.take(slot)
        return slot

    def free_slot(self, slot: int) -> None:
        self._slots.discard(slot)
        if self._locks is not None:
            self._locks.free(slot)

    def is_free(self, slot: int) -> bool:
        """Is it proven that the process which locked this slot is gone?"""
        if self._locks is None or slot in self._slots:
            return False  # our own locks do not conflict with us, so they would seem free
        if not 0 <= slot - _SLOTS_FROM < 1 << _SLOT_BITS:
            return False  # not a slot: the row was edited by hand
        try:
            return self._locks.is_free(slot)
        except OSError:
            return False

    def wake(self, topic: str) -> None:
        """Change the topic's number. If the disk is full, only the wake-up is lost."""
        with suppress(OSError):
            _write_at(self._file, secrets.token_bytes(_NUMBER), _place(topic))

    def number(self, topic: str) -> bytes:
        return _read_at(self._file, _NUMBER, _place(topic))

    def _read_or_write_id(self) -> str:
        """An id that distinguishes this file from one that replaces it later, and (by its inode)
        from copies: a copy has the same content, but none of the locks.

        It is written once, under a lock. Reading needs no lock: the id is complete or missing.
        """
        until = _real.monotonic() + PATIENCE
        while len(written := _read_at(self._file, _ID_LENGTH, _ID_AT)) < _ID_LENGTH:
            if self._locks is None or self._locks.take(_ID_AT):
                try:
                    if len(_read_at(self._file, _ID_LENGTH, _ID_AT)) < _ID_LENGTH:
                        _write_at(self._file, secrets.token_bytes(_ID_LENGTH), _ID_AT)
                finally:
                    if self._locks is not None:
                        self._locks.free(_ID_AT)
            elif _real.monotonic() > until:
                raise self._held(_ID_AT)
            else:
                _real.block(0.005)
        return f"{written.hex()}:{os.fstat(self._file).st_ino}"

    def _held(self, byte: int) -> StoreUnavailable:
        pids = {lock.pid for lock in locks_on(self.path) if lock.covers(byte, byte)}
        who = ", ".join(str(describe(pid)) for pid in sorted(pids))
        return StoreUnavailable(
            f"the lock file {self.path} is locked by"
            f" {who or 'a process that cannot be seen from here (another container or user)'}."
            " Tenure itself locks single bytes, each its own: end that process, or have it leave"
            " this file alone; then try again."
        )


def _place(topic: str) -> int:
    return crc32(topic.encode()) % _TOPICS * _NUMBER


if hasattr(os, "pread"):

    def _read_at(file: int, length: int, offset: int) -> bytes:
        return os.pread(file, length, offset)

    def _write_at(file: int, data: bytes, offset: int) -> None:
        os.pwrite(file, data, offset)

else:  # Windows: positions are shared, so one at a time

    def _read_at(file: int, length: int, offset: int) -> bytes:
        with _position:
            os.lseek(file, offset, os.SEEK_SET)
            return os.read(file, length)

    def _write_at(file: int, data: bytes, offset: int) -> None:
        with _position:
            os.lseek(file, offset, os.SEEK_SET)
            os.write(file, data)


_position = threading.Lock()


def _before_fork() -> None:
    _guard.acquire()  # no thread is in the middle of opening or closing


def _in_parent() -> None:
    _guard.release()


def _in_child() -> None:
    """The locks are the parent's; a forked child starts without locks and open files.

    A fork in C, like uWSGI's, may skip `_before_fork`: nothing here relies on it.
    """
    global _guard, _position
    _guard, _position = threading.Lock(), threading.Lock()
    for file in _files.values():
        os.close(file._file)
        file._file = -1
    _files.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
