"""Stop a child process where it is, and see where that is. The signal alone is not enough: its
threads may run on for a moment, and answer."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any


def freeze(process: subprocess.Popen[Any]) -> None:
    """Returns when all of it has stopped."""
    process.send_signal(signal.SIGSTOP)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status), "it has ended"


def thaw(process: subprocess.Popen[Any]) -> None:
    process.send_signal(signal.SIGCONT)


def position(pid: int) -> dict[str, list[str]]:
    """Of each thread of a frozen process: its stack pointer and its program counter. Empty where
    the kernel does not tell."""
    with suppress(OSError):
        return {
            thread.name: (thread / "syscall").read_text().split()[-2:]
            for thread in Path(f"/proc/{pid}/task").iterdir()
        }
    return {}


def waits(pid: int) -> dict[str, int]:
    """How often each thread of a process has begun to wait. Empty if the kernel does not tell."""
    found = {}
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):  # it has ended meanwhile
                status = (thread / "status").read_text()
                found[thread.name] = int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])
    return found
