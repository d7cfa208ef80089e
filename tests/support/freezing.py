"""Stop a child process where it is. The signal alone is not enough: its threads may run on for a
moment, and answer."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any


def freeze(process: subprocess.Popen[Any]) -> None:
    """Returns when all of it has stopped."""
    process.send_signal(signal.SIGSTOP)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status), "it has ended"


def thaw(process: subprocess.Popen[Any]) -> None:
    process.send_signal(signal.SIGCONT)
