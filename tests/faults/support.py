"""Real processes on a real file: starting, stopping, freezing and watching them.

Every program writes what it does to one journal, each line by a single O_APPEND write, so that
lines of many processes never mix and a killed process leaves no half one. Times in it are of the
kernel's monotonic clock, which all processes of the machine share.

Nothing here sleeps for something to happen: `until` waits for the fact itself, with a deadline.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
TTL = 2.0
LONG_TTL = 30.0
"""With this one, a takeover within `SOON` cannot have waited for the ttl."""
SOON = 20.0
PATIENCE = 60.0
"""How long a test waits for what must come. Promised times are asserted, not waited for."""
LEADER = "tenure/leader"


def until(condition: Callable[[], T | None], what: str, within: float = PATIENCE) -> T:
    """Wait for the condition to hold, and return what it says."""
    deadline = time.monotonic() + within
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {within:g} s for {what}")
        time.sleep(0.01)


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the journal."""

    event: str
    who: str
    pid: int
    at: float
    values: Mapping[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.values[key]


class Journal:
    """What all programs of a test did, in the order of writing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: list[Entry] = []
        self._offset = 0

    def write(self, event: str, who: str, **values: object) -> None:
        line = {"event": event, "who": who, "pid": os.getpid(), "at": time.monotonic(), **values}
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(file, json.dumps(line, default=str).encode() + b"\n")
        finally:
            os.close(file)

    def entries(
        self,
        event: str | None = None,
        who: str | Sequence[str] | None = None,
        after: float = float("-inf"),
        **values: object,
    ) -> list[Entry]:
        return [
            entry
            for entry in self._all()
            if (event is None or entry.event == event)
            and (who is None or entry.who == who or (not isinstance(who, str) and entry.who in who))
            and entry.at > after
            and all(entry.values.get(key) == value for key, value in values.items())
        ]

    def wait(
        self,
        event: str,
        who: str | Sequence[str] | None = None,
        after: float = float("-inf"),
        within: float = PATIENCE,
        **values: object,
    ) -> Entry:
        """The first such entry; waited for."""
        what = f"{event} {values or ''} of {who or 'anybody'}"
        return until(lambda: self.entries(event, who, after, **values), what, within)[0]

    def fact(
        self,
        name: str,
        who: str | Sequence[str] | None = None,
        after: float = float("-inf"),
        within: float = PATIENCE,
        **values: object,
    ) -> Entry:
        return self.wait("fact", who, after, within, name=name, **values)

    def unavailable(
        self, reason: str, who: str | None = None, after: float = float("-inf"), **values: object
    ) -> Entry:
        """The first failure of the store for this reason: on a busy machine there may be others."""
        return until(
            lambda: [
                e
                for e in self.entries("fact", who, after, name="store.unavailable", **values)
                if reason in e["error"]
            ],
            f"a failure because of {reason!r}",
        )[0]

    def facts(self, name: str, who: str | None = None, after: float = float("-inf")) -> list[Entry]:
        return self.entries("fact", who, after, name=name)

    def read(self) -> Iterator[Entry]:
        """All of it once more, line by line and kept nowhere."""
        with suppress(FileNotFoundError), self.path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield _entry(line)

    def news(self) -> list[Entry]:
        """What was written since the last time."""
        with suppress(FileNotFoundError), self.path.open("rb") as file:
            file.seek(self._offset)
            # A write is one, but may be seen before it is all there: the rest comes next time.
            lines, _, _ = file.read().rpartition(b"\n")
            self._offset += len(lines) + 1 if lines else 0
            return [_entry(line) for line in lines.splitlines()]
        return []

    def _all(self) -> list[Entry]:
        self._read += self.news()
        return self._read


def _entry(line: bytes) -> Entry:
    values = json.loads(line)
    event, who, pid, at = (values.pop(key) for key in ("event", "who", "pid", "at"))
    return Entry(event, who, pid, at, values)


class Program:
    """A process that the test started, and may do anything to."""

    def __init__(self, who: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.who = who
        self.process = process
        self.log = log

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def signal(self, number: int) -> float:
        """Send it; return when, on the clock of the journal."""
        sent = time.monotonic()
        self.process.send_signal(number)
        return sent

    def kill(self) -> float:
        sent = self.signal(signal.SIGKILL)
        self.process.wait(timeout=PATIENCE)
        return sent

    def freeze(self) -> float:
        """Returns once every thread of it stands still, or it has ended."""
        sent = self.signal(signal.SIGSTOP)
        until(
            lambda: set(self._states()) == {"T"} or not self.running, f"{self.who} to stand still"
        )
        return sent

    def thaw(self) -> float:
        return self.signal(signal.SIGCONT)

    def wait(self, within: float = PATIENCE) -> int:
        """Its exit code."""
        try:
            return self.process.wait(timeout=within)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"{self.who} did not end within {within:g} s:\n{self.output}"
            ) from None

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def let_go(self) -> None:
        """Close its input, which is its children's too: for them the test is over."""
        if self.process.stdin is not None:
            self.process.stdin.close()

    def end(self) -> None:
        """Whatever state it is in: gone when this returns."""
        self.let_go()
        if self.running:
            for number in (signal.SIGCONT, signal.SIGKILL):
                with suppress(ProcessLookupError):
                    self.process.send_signal(number)
        self.process.wait()

    def _states(self) -> list[str]:
        stats = [path.read_text() for path in Path(f"/proc/{self.pid}/task").glob("*/stat")]
        return [stat.rpartition(")")[2].split()[0] for stat in stats]


class Store:
    """What the file says, read by plain SQL: independently of Tenure."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def connect(self) -> Iterator[sqlite3.Connection]:
        uri = f"{self.path.as_uri()}?mode=rw"
        with closing(sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None)) as c:
            c.row_factory = sqlite3.Row
            yield c

    def rows(self, query: str, *values: object) -> list[sqlite3.Row]:
        with self.connect() as connection:
            return connection.execute(query, values).fetchall()

    def lease(self, name: str = LEADER) -> sqlite3.Row:
        return self.rows("SELECT * FROM tenure_lease WHERE name = ?", name)[0]

    def history(self, name: str = LEADER) -> list[sqlite3.Row]:
        query = "SELECT * FROM tenure_lease_history WHERE name = ? ORDER BY term"
        return self.rows(query, name)

    def runs(self, schedule: str) -> list[sqlite3.Row]:
        return self.rows("SELECT * FROM tenure_run WHERE schedule = ? ORDER BY id", schedule)

    def occurrences(self, schedule: str) -> list[sqlite3.Row]:
        query = (
            "SELECT o.* FROM tenure_occurrence o JOIN tenure_schedule s ON s.uid = o.schedule_uid"
            " WHERE s.name = ? ORDER BY nominal"
        )
        return self.rows(query, schedule)

    def sound(self) -> bool:
        return [row[0] for row in self.rows("PRAGMA integrity_check")] == ["ok"]

    @contextmanager
    def write_lock(self) -> Iterator[None]:
        """While this is held no other process is inside a write."""
        with self.connect() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("ROLLBACK")

    @property
    def locked(self) -> bool:
        """Is somebody inside a write, at this instant?"""
        with self.connect() as connection:
            connection.execute("PRAGMA busy_timeout = 0")
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                return True
            connection.execute("ROLLBACK")
            return False


class Cluster:
    """Processes that share one file, and one journal of what they do."""

    def __init__(self, folder: Path, database: Path | None = None) -> None:
        self.folder = folder
        self.database = database or folder / "tenure.db"
        self.journal = Journal(folder / "journal")
        self.store = Store(self.database)
        self.programs: list[Program] = []

    def freeze(self, program: Program) -> float:
        """Not inside a write, which would hold up every writer of the file."""
        with self.store.write_lock():
            return program.freeze()

    @property
    def url(self) -> str:
        return f"sqlite:///{self.database}"

    def start(
        self,
        program: str,
        who: str,
        *,
        root: Path = ROOT,
        prefix: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        **options: object,
    ) -> Program:
        """Start `tests.faults.programs.<program>` under the name `who`, with the code in `root`."""
        given = {"url": self.url, "journal": str(self.journal.path), "who": who, **options}
        module = f"tests.faults.programs.{program}"
        log = self.folder / f"{who}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*prefix, sys.executable, "-m", module, json.dumps(given)],
                env=_environment(root) | dict(env or {}),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=root,
            )
        started = Program(who, process, log)
        self.programs.append(started)
        return started

    def node(self, who: str, *tasks: Mapping[str, object], **options: Any) -> Program:
        """Start a scheduler with these tasks."""
        return self.start("node", who, tasks=tasks, **options)

    def leader(self, who: str | Sequence[str] | None = None, after: float = float("-inf")) -> Entry:
        """Wait until one of these takes office."""
        return self.journal.fact("leader.took_office", who, after)

    def tell(self, who: str, word: str) -> None:
        """Say a word to a program that waits for it; see programs/common.py."""
        (self.folder / f"{who}.{word}").touch()

    def stop_all(self, *names: str) -> None:
        """Politely: what runs comes to its end. All of them, or these."""
        stopping = [p for p in self.programs if p.running and (not names or p.who in names)]
        for program in stopping:
            program.thaw()
            program.signal(signal.SIGTERM)
        codes = {program.who: program.wait() for program in stopping}
        assert codes == dict.fromkeys(codes, 0)

    def end(self) -> None:
        for program in reversed(self.programs):
            program.end()
        for forked in self.journal.entries("forked"):
            self._end_forked(forked.pid)

    def _end_forked(self, pid: int) -> None:
        """A child of one of our programs: it ends with its input, and if it must, by force."""
        deadline = time.monotonic() + 5
        while self.lives(pid):
            if time.monotonic() > deadline:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)

    def lives(self, pid: int) -> bool:
        """Is this process of ours still there?"""
        try:
            command = Path(f"/proc/{pid}/cmdline").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False
        return str(self.journal.path) in command  # empty, if it only waits to be reaped

    def logs(self) -> str:
        return "\n".join(f"--- {p.who} (pid {p.pid})\n{p.output[-4000:]}" for p in self.programs)

    def complaints(self) -> list[str]:
        """What is wrong with this history: see accounting.py. Call it `== []`."""
        from tests.faults.accounting import account

        return account(self.journal, self.store)


def task(name: str, seconds: float, **options: object) -> dict[str, object]:
    """A task for `Cluster.node`; see programs/node.py for the options."""
    return {"name": name, "seconds": seconds, **options}


def _environment(root: Path) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("TENURE_")}
    path = os.pathsep.join([str(root), str(root / "src")])
    return inherited | {"PYTHONPATH": path, "PYTHONFAULTHANDLER": "1"}
