"""Who holds SQLite's write lock, as the kernel tells.

SQLite takes the write lock of a write-ahead log as a record lock on byte 120 of the `-shm` file.
`/proc/locks` lists such locks with the process that has them. The `-shm` file itself is never
opened here: closing it would drop the locks that SQLite has on it in this very process.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

WRITE_LOCK_BYTE = 120
RESERVED_BYTE = 0x40000001  # of the database itself, where there is no write-ahead log
_LOCKS = Path("/proc/locks")
_STATES = {
    "T": "stopped (frozen)",
    "t": "stopped by a debugger",
    "D": "waiting for the disk",
    "R": "running",
    "S": "sleeping",
    "Z": "dead, not yet reaped",
}


@dataclass(frozen=True, slots=True)
class Writer:
    """The process that has the write lock."""

    pid: int
    command: str
    state: str

    @property
    def frozen(self) -> bool:
        return self.state.startswith("stopped")

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command}), {self.state}"


def find_writer(path: Path) -> Writer | None:
    """The process that has the write lock; None if there is none, or the kernel does not say."""
    try:
        locks = _LOCKS.read_text()
    except OSError:
        return None
    shm = path.with_name(path.name + "-shm")
    for file, byte in ((shm, WRITE_LOCK_BYTE), (path, RESERVED_BYTE)):
        try:
            stat = file.stat()
        except OSError:
            continue
        pid = holder_of(locks, stat.st_dev, stat.st_ino, byte)
        if pid is not None:
            return describe(pid)
    return None


def holder_of(locks: str, device: int, inode: int, byte: int) -> int | None:
    """The process with a write lock on that byte, from the text of /proc/locks.

    The device is preferred, not required: some file systems show another one there.
    """
    wanted = f"{os.major(device):02x}:{os.minor(device):02x}"
    found: int | None = None
    for line in locks.splitlines():
        fields = line.split()
        # "3: POSIX  ADVISORY  WRITE 1234 fe:00:5678 120 120"; one who waits has "->" before POSIX.
        if len(fields) != 8 or fields[1] != "POSIX" or fields[3] != "WRITE":
            continue
        pid, file, first, last = fields[4:]
        place, _, number = file.rpartition(":")
        end = float("inf") if last == "EOF" else int(last)
        if number != str(inode) or not int(first) <= byte <= end or int(pid) <= 0:
            continue
        if place == wanted:
            return int(pid)
        found = int(pid)
    return found


def describe(pid: int) -> Writer:
    folder = Path(f"/proc/{pid}")
    try:
        raw = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        letter = (folder / "stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return Writer(pid, "unknown command", "state unknown")
    command = raw.strip() or "unknown command"
    if len(command) > 120:
        command = command[:119] + "…"
    return Writer(pid, command, _STATES.get(letter, f"state {letter}"))
