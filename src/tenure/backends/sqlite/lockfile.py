"""The lock file beside the database: proof of death, and wake-ups, from the kernel alone.

`<database>-tenure` holds no data. Each open backend locks one byte of it, far beyond its end, at a
random place (its *slot*). The kernel frees that lock when the process ends, however it ends, and
at no other time: a free slot proves that its holder is dead, across containers too, as long as
they share a kernel. These are POSIX record locks: a forked child does not inherit them, so a child
that outlives its parent does not keep the dead parent alive.

POSIX locks have one trap: closing *any* descriptor of a file drops all locks that the process has
on it. So there is one descriptor per file and process, shared by all backends that use it.

The file begins with numbers, one for each of 512 topics. To wake others is to write a fresh one; to
be woken is to look now and then, which costs a system call and no query.
"""

from __future__ import annotations

import os
import secrets
import sys
import threading
from contextlib import suppress
from pathlib import Path
from zlib import crc32

if sys.platform != "win32":  # there: no proof of death, the ttl decides
    import fcntl

_TOPICS = 512
_NUMBER = 8
_ID_AT = _TOPICS * _NUMBER
_ID_LENGTH = 16
_SLOTS_FROM = 1 << 20

_files: dict[tuple[int, int], LockFile] = {}
_guard = threading.Lock()


class LockFile:
    """The lock file of one database, as this process has it open. Use `LockFile.open`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        self._slots: set[int] = set()
        self._users = 0
        self.id = self._read_or_write_id()

    @classmethod
    def open(cls, path: Path) -> LockFile:
        """The lock file at this path: the one that this process already has open, if it has."""
        with _guard:
            file = None
            if path.exists():
                stat = path.stat()
                file = _files.get((stat.st_dev, stat.st_ino))
            if file is None:
                file = cls(path)
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
        """Lock a byte of one's own; None where the platform has no such locks."""
        if sys.platform == "win32":
            return None
        slot = _SLOTS_FROM + secrets.randbits(60)
        fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, slot)
        self._slots.add(slot)
        return slot

    def free_slot(self, slot: int) -> None:
        self._slots.discard(slot)
        if sys.platform != "win32":
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, slot)

    def is_free(self, slot: int) -> bool:
        """Is it proven that whoever locked this slot is gone?"""
        if sys.platform == "win32":
            return False
        if slot in self._slots:
            return False  # our own locks never conflict with ourselves: they would seem free
        try:
            fcntl.lockf(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, slot)
        except OSError:
            return False
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, slot)
        return True

    def wake(self, topic: str) -> None:
        """Change the topic's number. A full disk makes it a wake-up lost, and no more."""
        with suppress(OSError):
            _write_at(self._file, secrets.token_bytes(_NUMBER), _place(topic))

    def number(self, topic: str) -> bytes:
        return _read_at(self._file, _NUMBER, _place(topic))

    def _read_or_write_id(self) -> str:
        """What tells this file from another one put in its place later, and from copies of it:
        a copy has the same content, but nobody's locks."""
        if sys.platform != "win32":
            fcntl.lockf(self._file, fcntl.LOCK_EX, 1, _ID_AT)
        try:
            written = _read_at(self._file, _ID_LENGTH, _ID_AT)
            if len(written) < _ID_LENGTH:
                written = secrets.token_bytes(_ID_LENGTH)
                _write_at(self._file, written, _ID_AT)
        finally:
            if sys.platform != "win32":
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _ID_AT)
        return f"{written.hex()}:{os.fstat(self._file).st_ino}"


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


def _in_child() -> None:
    """The locks are the parent's; a forked child starts without any, and without its files."""
    for file in _files.values():
        os.close(file._file)
        file._file = -1
    _files.clear()
    _guard.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_in_child
    )
