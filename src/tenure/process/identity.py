"""Who this process is, and whether another process of this kernel is still there.

On Linux a process is known by the kernel's boot id, its pid namespace, its pid and its start time:
the four together never come back. Elsewhere those that are unknown stay empty, nothing can be
proven, and the ttl of a lease decides.
"""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from tenure.model import Holder

_MOST_PROCESSES = 2**22
"""Linux has no greater pid. What is greater proves nothing."""


def new_holder() -> Holder:
    """An identity for this process, different at every call."""
    process = _process(os.getpid())
    return replace(process, id=f"{process.host}:{process.pid}:{secrets.token_hex(4)}")


@lru_cache(maxsize=1)
def _process(pid: int) -> Holder:
    """What stays the same for as long as this process lives; a forked child has another pid."""
    return Holder(
        id="",
        host=socket.gethostname(),
        pid=pid,
        boot=clock_domain(),
        pid_namespace=_namespace("pid"),
        started=_start_time(pid) or 0,
    )


@lru_cache(maxsize=1)
def clock_domain() -> str:
    """Names the boot clock this process reads: two processes may compare readings if it is equal.

    A time namespace (containers may have one) shifts the boot clock, so it is part of the name.
    """
    boot = _read("/proc/sys/kernel/random/boot_id")
    return f"{boot}/{_namespace('time')}" if boot else ""


def is_dead(holder: Holder) -> bool:
    """True only with proof: same kernel, same pid namespace, and that process is gone."""
    if not (holder.pid and holder.boot and holder.pid_namespace and holder.started):
        return False
    if holder.boot != clock_domain() or holder.pid_namespace != _namespace("pid"):
        return False
    started = _start_time(holder.pid)
    if started is not None:
        return started != holder.started
    # Unreadable is no proof: /proc may hide other users' processes. The kernel knows.
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return 0 < holder.pid <= _MOST_PROCESSES
    except (PermissionError, OverflowError):
        pass
    return False


def is_gone(pid: int, pid_namespace: str) -> bool:
    """A cheaper question about a process of this boot, to be asked often: has nobody its pid?

    True only with proof, as above; but a zombie, and another process under the same pid, count as
    that process.
    """
    try:
        if pid_namespace:
            os.kill(pid, 0)
    except ProcessLookupError:
        return 0 < pid <= _MOST_PROCESSES and pid_namespace == _namespace("pid")
    except (OSError, OverflowError):
        pass
    return False


def _start_time(pid: int) -> int | None:
    """The kernel's start time of a process: 0 if it only waits to be reaped, None if not seen."""
    stat = _read(f"/proc/{pid}/stat")
    if not stat:
        return None
    # The command name is in parentheses and may contain anything: count from the last one.
    fields = stat.rpartition(")")[2].split()
    return 0 if fields[0] in "ZX" else int(fields[19])


def _namespace(kind: str) -> str:
    try:
        return str(Path(f"/proc/self/ns/{kind}").readlink())
    except OSError:
        return ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
