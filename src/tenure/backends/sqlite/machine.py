"""What the backend needs from the machine and the process that it runs in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tenure.backends.sqlite.connection import Connection
from tenure.backends.sqlite.locks.lockfile import LockFile
from tenure.backends.sqlite.locks.sharedlocks import SharedLocks
from tenure.backends.sqlite.wakeups import SQLiteWakeups
from tenure.process.clock import Clock
from tenure.process.threads import Threads


@dataclass(frozen=True, slots=True)
class Machine:
    """How the backend reaches the file, what proves death, and how it is woken.

    The simulation replaces this. It has many nodes in one process, where the timing of threads must
    not matter and the kernel's locks would prove nothing.
    """

    connection: Callable[[Path, str], Connection] = Connection
    lock_file: Callable[[Path], LockFile] = LockFile.open
    shared_locks: Callable[[Path], SharedLocks | None] = SharedLocks.take
    wakeups: Callable[[LockFile, Clock], SQLiteWakeups] = SQLiteWakeups
    threads: Callable[[str], Threads] = Threads
    boot: str | None = None
    """Names the clock that leases run on; default: this kernel's boot clock."""


THIS_MACHINE = Machine()
