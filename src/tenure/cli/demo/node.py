"""A node of the demo: `python -m tenure.cli.demo.node FOLDER`, with database and journal in it.

An ordinary program with a scheduler. Its tasks pretend to work, and say so in the journal: a text
file, independent of the scheduler. Each execution appends a line with one `write`: lines of several
processes never mix, and a line survives the death of its process.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from tenure import Run, Scheduler, every
from tenure.process.clock import SystemClock

DATABASE, JOURNAL = "demo.db", "journal.jsonl"
TTL = 2.0

# Intervals longer than ttl + 1 s, the longest takeover that is promised: then no two occurrences
# of one schedule can be due at once, and catch_up=latest has no reason to pass one over.
_SECONDS = {"backup": 5, "cleanup": 5, "digest": 4, "invoices": 4, "metrics": 6, "report": 6}
_ANCHOR = datetime(2026, 1, 1, tzinfo=UTC)
_APART = timedelta(seconds=0.7)  # so that they do not all come due at the same instant
SCHEDULES = {
    name: every(seconds=seconds, start=_ANCHOR + number // 2 * _APART)
    for number, (name, seconds) in enumerate(_SECONDS.items())
}
_WORK = 0.05


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
        return json.dumps(asdict(self), default=datetime.isoformat) + "\n"

    @classmethod
    def from_line(cls, line: str) -> Self:
        values = json.loads(line)
        moments = {name: datetime.fromisoformat(values[name]) for name in ("nominal", "at")}
        return cls(**{**values, **moments})


def main(folder: Path) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # One run at a time: two schedules that are due together are then executed by two nodes.
    scheduler = Scheduler(f"sqlite:///{folder / DATABASE}", ttl=TTL, concurrency=1)
    journal, clock = (folder / JOURNAL).open("ab", buffering=0), SystemClock()

    def work(run: Run) -> None:
        name, now = run.schedule or run.task, clock.now()
        began = Execution(run.id, name, run.nominal, run.attempt, os.getpid(), now)
        journal.write(began.to_line().encode())
        clock.block(_WORK)

    for name, trigger in SCHEDULES.items():
        scheduler.task(trigger, name=name)(work)
    scheduler.run()


def _end_with_parent() -> None:
    """The other end of our standard input is the demo's: it closes, at the latest, when that dies.

    A read and not `sys.stdin`: that has a lock which the end of the process would wait for.
    """
    while os.read(0, 1024):
        pass
    os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
