"""A node of the demo: `python -m tenure.cli.demo.node DATABASE JOURNAL`.

An ordinary program with a scheduler in it. Its tasks pretend to work, and say so in the journal.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tenure import Run, Scheduler, every
from tenure.cli.demo.journal import JournalWriter
from tenure.clock import SystemClock

TTL = 2.0

# Intervals longer than ttl + 1 s, the longest takeover that is promised: then no two occurrences
# of one schedule can be due at once, and catch_up=latest has no reason to pass one over.
SCHEDULES: dict[str, tuple[float, bool]] = {
    # name: (seconds, is a coroutine)
    "backup": (5.0, False),
    "cleanup": (5.0, True),
    "digest": (4.0, True),
    "invoices": (4.0, False),
    "metrics": (6.0, True),
    "report": (6.0, False),
}
_ANCHOR = datetime(2026, 1, 1, tzinfo=UTC)
_APART = timedelta(seconds=0.7)  # so that they do not all come due at the same instant
_WORK = 0.05


def make_scheduler(url: str, journal: JournalWriter) -> Scheduler:
    # One run at a time: two schedules that are due together are then executed by two nodes.
    scheduler = Scheduler(url, ttl=TTL, concurrency=1)
    clock = SystemClock()

    def plain() -> Callable[[Run], None]:
        def work(run: Run) -> None:
            journal.add(run)
            clock.block(_WORK)

        return work

    def coroutine() -> Callable[[Run], object]:
        async def work(run: Run) -> None:
            journal.add(run)
            await clock.sleep(_WORK)

        return work

    for number, (name, (seconds, is_async)) in enumerate(SCHEDULES.items()):
        trigger = every(seconds=seconds, start=_ANCHOR + number // 2 * _APART)
        scheduler.task(trigger, name=name)(coroutine() if is_async else plain())
    return scheduler


def main(database: str, journal: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    threading.Thread(target=_end_with_parent, daemon=True).start()
    make_scheduler(f"sqlite:///{database}", JournalWriter(Path(journal))).run()


def _end_with_parent() -> None:
    """The other end of our standard input is the demo's: it closes, at the latest, when that dies.

    A read and not `sys.stdin`: that has a lock which the end of the process would wait for.
    """
    while os.read(0, 1024):
        pass
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
