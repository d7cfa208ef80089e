"""What the backend has from the machine that it runs on, and from its process there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tenure.backends.sqlite.connection import Connection
from tenure.backends.sqlite.lockfile import LockFile
from tenure.backends.sqlite.sharedlocks import SharedLocks
from tenure.backends.sqlite.wakeups import SQLiteWakeups
from tenure.clock import Clock
from tenure.threads import Threads


@dataclass(frozen=True, slots=True)
class Machine:
    """How it reaches the file, what proves death, and how it is woken.

    Another one than this is for a simulation, which has many nodes in one process: there are no
    threads whose timing would count, and the kernel's locks would prove nothing.
    """

    connection: Callable[[Path, str], Connection] = Connection
    lock_file: Callable[[Path], LockFile] = LockFile.open
    shared_locks: Callable[[Path], SharedLocks | None] = SharedLocks.take
    wakeups: Callable[[LockFile, Clock], SQLiteWakeups] = SQLiteWakeups
    threads: Callable[[str], Threads] = Threads
    boot: str | None = None
    """Names the clock that leases run on; that of this kernel unless given."""


THIS_MACHINE = Machine()
