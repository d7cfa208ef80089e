"""Applications under real servers: started as users start them, killed, and held to account.

The programs are those of examples/apps. Each prints a line for each occurrence that it executes;
the store says what should have been executed.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from tenure import Leases, Scheduler
from tests.support.servers import free_port, release_port

T = TypeVar("T")

APPS = Path(__file__).resolve().parents[2] / "examples" / "apps"
BIN = Path(sys.executable).parent
PATIENCE = 60.0
PERIOD = timedelta(seconds=0.5)
_SWEPT = re.compile(r"^(\d\d:\d\d:\d\d(?:\.\d+)?) swept by process (\d+)$", re.MULTILINE)


def until(condition: Callable[[], T | None], what: str) -> T:
    """Wait for the condition to hold, and return what it says."""
    deadline = time.monotonic() + PATIENCE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {PATIENCE:g} s for {what}")
        time.sleep(0.02)


class Sweep(NamedTuple):
    """A line of the log: which occurrence, and who executed it."""

    nominal: str
    pid: int


class Server:
    """A server with all of its processes, and what they print."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, port: int) -> None:
        self.process = process
        self.log = log
        self.port = port

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        return self.log.read_text()

    @property
    def sweeps(self) -> list[Sweep]:
        return [Sweep(found[1], int(found[2])) for found in _SWEPT.finditer(self.output)]

    def until_swept(self, more: int = 2, by: int | None = None, not_by: int | None = None) -> Sweep:
        """Wait for so many more sweeps, by somebody or by anybody but somebody; the last one."""

        def fitting() -> list[Sweep]:
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended: {self.output}")
            return [s for s in self.sweeps if by in (None, s.pid) and s.pid != not_by]

        there = len(fitting())
        try:
            until(lambda: len(fitting()) >= there + more, f"{more} sweeps")
        except AssertionError as error:
            raise AssertionError(f"{error}:\n{self.output[-3000:]}") from None
        return fitting()[-1]

    def get(self, path: str = "/") -> tuple[int, dict[str, Any]]:
        """Ask it, as soon as it answers."""

        def ask() -> tuple[int, dict[str, Any]] | None:
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended: {self.output}")
            try:
                with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                    return answer.status, json.load(answer)
            except HTTPError as error:
                with error:
                    return error.code, json.load(error)
            except (URLError, ConnectionError, TimeoutError):
                return None

        return until(ask, f"an answer from port {self.port}")

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask it to end; its exit code. Nothing may have gone wrong in it."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> int:
        code = self.process.wait(PATIENCE)
        assert "Traceback" not in self.output, self.output
        assert "Error" not in self.output, self.output
        return code

    def close(self) -> None:
        """All of its processes are one group, made by `serving`."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def serving(folder: Path, url: str, *command: str, cwd: Path = APPS) -> Iterator[Server]:
    """Run a command of the environment in `cwd`; {port} in it becomes a free one."""
    port = free_port()
    # Unbuffered, a line and its end are two writes: another process may write in between.
    without = ("TENURE_", "WEB_", "WERK", "PYTHONUNBUFFERED")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(without)}
    log = folder / f"server-{port}.log"
    program, *arguments = [word.format(port=port) for word in command]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [str(BIN / program), *arguments],
            cwd=cwd,
            env={**kept, "TENURE_URL": url, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        with closing(Server(process, log, port)) as server:
            yield server
    finally:
        release_port(port)


class Books:
    """What the store says, asked from outside."""

    def __init__(self, url: str) -> None:
        self.scheduler = Scheduler(url)
        self.leases = Leases(url)

    def close(self) -> None:
        self.scheduler.stop()
        self.leases.close()

    def leader(self, name: str = "tenure/leader") -> int | None:
        """The pid of who leads."""
        record = self.leases.inspect(name)
        return record.pid if record is not None and record.live else None

    def until_led(self, name: str = "tenure/leader", but: int | None = None) -> int:
        return until(
            lambda: found if (found := self.leader(name)) != but else None, "another leader"
        )

    def kill(self, pid: int) -> None:
        """Kill a process that executes nothing at this instant.

        One that had printed its line, and not noted its result, would rightly be repeated.
        """
        kill_when(pid, lambda: not self.scheduler.runs(state="claimed"))

    def check(self, sweeps: list[Sweep]) -> None:
        """Every occurrence is accounted for, and what was fired was executed exactly once.

        Once, not at the first attempt: who is stopped before it begins a run hands it back. If all
        stop, the last one that was fired may wait for the next start.
        """
        runs = self.scheduler.runs("sweep", limit=10_000)
        if runs[0].state == "waiting":
            runs = runs[1:]
        assert {run.state for run in runs} == {"succeeded"}, [run for run in runs if run.error]
        executed = Counter(sweep.nominal for sweep in sweeps)
        assert executed == Counter(f"{run.nominal:%H:%M:%S.%f}" for run in runs)
        assert set(executed.values()) == {1}
        last = None
        for occurrence in reversed(self.scheduler.occurrences("sweep", limit=10_000)):
            assert occurrence.state in ("fired", "missed", "skipped"), occurrence
            assert last is None or occurrence.nominal - last == PERIOD, occurrence
            last = occurrence.last
        assert self.leader() is None  # released, not left to expire


@contextmanager
def books(url: str) -> Iterator[Books]:
    with closing(Books(url)) as opened:
        yield opened


def kill_when(pid: int, safe: Callable[[], bool]) -> None:
    """Freeze it, look, and kill it or let it go on: nothing happens in between."""

    def killed() -> bool:
        os.kill(pid, signal.SIGSTOP)
        until(lambda: _stands_still(pid), f"process {pid} to stand still")
        if safe():
            os.kill(pid, signal.SIGKILL)
            return True
        os.kill(pid, signal.SIGCONT)
        return False

    until(killed, f"an instant at which {pid} executes nothing")


def _stands_still(pid: int) -> bool:
    stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return {stat.rpartition(")")[2].split()[0] for stat in stats} == {"T"}
