"""The node processes of the demo: started, killed, frozen, thawed and stopped, by their pids."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack, suppress
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from tenure.backends.sqlite.connection import Connection
from tenure.clock import SystemClock
from tenure.errors import TenureError

CAN_FREEZE = hasattr(signal, "SIGSTOP")
_LONGEST_FREEZING = 1.0
_clock = SystemClock()


class Fate(StrEnum):
    """What the demo has done to a node."""

    RUNNING = "running"
    KILLED = "killed"
    FROZEN = "frozen"
    STOPPED = "stopped"


class NodeFailed(TenureError):
    """A node ended of itself: the demo cannot go on."""


class NodeProcess:
    """One node. Its output goes to a file of its own."""

    def __init__(self, number: int, folder: Path) -> None:
        self.number = number
        self.name = f"node {number}"
        self.fate = Fate.RUNNING
        self.log = folder / f"node-{number}.log"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TENURE_")}
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "tenure.cli.demo.node"),
                    *(str(folder / "demo.db"), str(folder / "journal.jsonl")),
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment,
                # Ctrl-C is for the demo, which then stops its nodes; and the kernel ends a frozen
                # node of a group whose parent has died.
                process_group=None if sys.platform == "win32" else 0,
            )
        self.pid = self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> datetime:
        """End it without warning (SIGKILL); says when."""
        at = _clock.now()
        self._process.kill()
        self.fate = Fate.KILLED
        self._process.wait()
        return at

    def ask_to_stop(self) -> datetime:
        """Have it hand over and end (SIGTERM); says when."""
        at = _clock.now()
        self.fate = Fate.STOPPED
        self._process.terminate()
        return at

    def freeze(self) -> datetime:
        """Stop it (SIGSTOP), and return when it does stand still."""
        at = _clock.now()
        os.kill(self.pid, signal.SIGSTOP)
        self.fate = Fate.FROZEN
        until = _clock.monotonic() + _LONGEST_FREEZING
        while _clock.monotonic() < until:
            pid, status = os.waitpid(self.pid, os.WUNTRACED | os.WNOHANG)
            if pid and os.WIFSTOPPED(status):
                break
            _clock.block(0.001)
        return at

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)
        self.fate = Fate.RUNNING

    def end(self) -> None:
        """Make sure that it is gone and leaves nothing behind."""
        with suppress(OSError):
            self._process.kill()  # also ends a frozen one; nothing happens if it has ended
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


class Cluster:
    """All nodes of the demo, on one SQLite file in one folder. Leaving it ends them all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = folder / "demo.db"
        self.journal = folder / "journal.jsonl"
        self.nodes: list[NodeProcess] = []

    def start(self, count: int) -> None:
        for number in range(1, count + 1):
            self.nodes.append(NodeProcess(number, self.folder))

    def with_pid(self, pid: int | None) -> NodeProcess | None:
        return next((node for node in self.nodes if node.pid == pid), None)

    def at(self, fate: Fate) -> list[NodeProcess]:
        return [node for node in self.nodes if node.fate is fate]

    async def freeze(self, node: NodeProcess) -> datetime:
        """Freeze a node, but not inside a write: that would stop every writer of the file.

        So the demo takes the write lock itself for this instant.
        """
        connection = Connection(self.database, "demo-freeze")
        await connection.open()
        try:
            return await connection.write(lambda _: node.freeze())
        finally:
            await connection.close()

    def check(self) -> None:
        """Complain of a node that ended though nobody asked it to."""
        for node in self.at(Fate.RUNNING):
            if not node.alive:
                said = node.log.read_text(errors="replace").strip().splitlines()
                last = "\n".join(said[-15:]) or "(it wrote nothing)"
                raise NodeFailed(f"{node.name} (pid {node.pid}) ended by itself:\n{last}")

    def end(self) -> None:
        """End every process that was started, whatever state it is in."""
        with ExitStack() as stack:
            for node in self.nodes:
                stack.callback(node.end)
