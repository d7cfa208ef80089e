"""Which processes have which locks on a file, for error messages and `tenure doctor`.

`/proc/locks` lists the locks of processes with their pids, but open file description locks without;
`/proc/<pid>/fdinfo` has those. The file itself is never opened here: closing it again would drop
the locks that SQLite has on it in this process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tenure.backends.urls import shown

_PROC = Path("/proc")
_LOCKS = _PROC / "locks"
_EOF = (1 << 63) - 1
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://.*", re.DOTALL)
_STATES = {
    "T": "stopped (frozen)",
    "t": "stopped by a debugger",
    "D": "waiting for the disk",
    "R": "running",
    "S": "sleeping",
    "Z": "dead, not yet reaped",
}


@dataclass(frozen=True, slots=True)
class Process:
    """A process, for people."""

    pid: int
    command: str
    state: str

    @property
    def frozen(self) -> bool:
        return self.state.startswith("stopped")

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command}), {self.state}"


@dataclass(frozen=True, slots=True)
class KernelLock:
    """A lock on a range of bytes, and the process that has it."""

    pid: int
    exclusive: bool
    first: int
    last: int

    def covers(self, first: int, last: int) -> bool:
        return self.first <= last and first <= self.last


def locks_on(file: Path) -> list[KernelLock]:
    """All that can be seen from here: not those of other containers, nor of other users' open
    file descriptions."""
    try:
        stat, listed = file.stat(), _LOCKS.read_text()
    except OSError:
        return []
    found = parse(listed, stat.st_dev, stat.st_ino)
    if any(lock.pid < 0 for lock in found):
        found += _of_descriptions(stat)
    return [lock for lock in found if lock.pid > 0]


def parse(listed: str, device: int, inode: int, owner: int | None = None) -> list[KernelLock]:
    """From the text of /proc/locks, or of an fdinfo of the process `owner`.

    The device is preferred, not required: some file systems show another one there.
    """
    wanted = f"{os.major(device):02x}:{os.minor(device):02x}"
    here: list[KernelLock] = []
    elsewhere: list[KernelLock] = []
    for line in listed.splitlines():
        # "3: POSIX  ADVISORY  WRITE 1234 fe:00:5678 120 120"; a waiting one has "->" before POSIX.
        fields = line.removeprefix("lock:").split()
        if len(fields) != 8 or fields[1] not in ("POSIX", "OFDLCK"):
            continue
        kind, pid, file, first, last = fields[3:]
        place, _, number = file.rpartition(":")
        if number != str(inode):
            continue
        end = _EOF if last == "EOF" else int(last)
        lock = KernelLock(owner or int(pid), kind == "WRITE", int(first), end)
        (here if place == wanted else elsewhere).append(lock)
    return here or elsewhere


def describe(pid: int) -> Process:
    folder = _PROC / str(pid)
    try:
        words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        letter = (folder / "stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return Process(pid, "unknown command", "state unknown")
    command = " ".join(map(_shown, words)).strip() or "unknown command"
    if len(command) > 120:
        command = command[:119] + "…"
    return Process(pid, command, _STATES.get(letter, f"state {letter}"))


def _shown(word: str) -> str:
    """A command's argument without the passwords of URLs in it."""
    return _URL.sub(lambda found: shown(found[0]), word)


def _of_descriptions(stat: os.stat_result) -> Iterator[KernelLock]:
    for info in _PROC.glob("[0-9]*/fdinfo/*"):
        try:
            text = info.read_text()
        except OSError:
            continue  # it ended, or is another user's
        if "OFDLCK" in text:
            owner = int(info.parts[-3])
            lines = "\n".join(line for line in text.splitlines() if "OFDLCK" in line)
            yield from parse(lines, stat.st_dev, stat.st_ino, owner)
