"""The demo's independent witness: a text file to which every execution adds one line.

The scheduler has no hand in it. A line is one `write` to a file opened for appending, so lines of
several processes never mix, and a line that was written survives the death of its process.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tenure.clock import Clock, SystemClock
from tenure.tasks import Run


@dataclass(frozen=True, slots=True)
class Execution:
    """A line of the journal: a task began."""

    run: int
    schedule: str
    nominal: datetime
    attempt: int
    pid: int
    at: datetime

    @property
    def late(self) -> float:
        return (self.at - self.nominal).total_seconds()

    def to_line(self) -> str:
        values = {
            "run": self.run,
            "schedule": self.schedule,
            "nominal": self.nominal.isoformat(),
            "attempt": self.attempt,
            "pid": self.pid,
            "at": self.at.isoformat(),
        }
        return json.dumps(values) + "\n"

    @classmethod
    def from_line(cls, line: str) -> Execution:
        values = json.loads(line)
        return cls(
            run=values["run"],
            schedule=values["schedule"],
            nominal=datetime.fromisoformat(values["nominal"]),
            attempt=values["attempt"],
            pid=values["pid"],
            at=datetime.fromisoformat(values["at"]),
        )


class JournalWriter:
    """What a node writes with."""

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def add(self, run: Run) -> None:
        execution = Execution(
            run=run.id,
            schedule=run.schedule,
            nominal=run.nominal,
            attempt=run.attempt,
            pid=os.getpid(),
            at=self._clock.now(),
        )
        os.write(self._file, execution.to_line().encode())


class JournalReader:
    """What the demo reads with: `read` takes in what was added since the last time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self.executions: list[Execution] = []

    def read(self) -> list[Execution]:
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._offset)
                added = file.read()
            whole = added[: added.rfind(b"\n") + 1]
            self._offset += len(whole)
            lines = whole.decode().splitlines()
            self.executions += [Execution.from_line(line) for line in lines]
        return self.executions
