"""A node of whatever Tenure is on the path, by what older ones have too: see beside.py.

Imports nothing else of ours. `fired`: all are due at once, and nobody executes them; `executed`:
the same, until all results are recorded; each in seconds from due to the last. `lateness`: so many
each second, at the same instant, for ten seconds; milliseconds until the task begins, p99.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from tenure import NewSchedule, Run, Scheduler, Settings, at, every

PATIENCE = 120.0
WARM_UP = 2.0
_starts: list[tuple[float, float]] = []


def work(run: Run) -> None:
    _starts.append((run.nominal.timestamp(), time.time()))


def burst(url: str, kind: str, count: int) -> float:
    settings = Settings(concurrency=0) if kind == "fired" else Settings()
    scheduler = Scheduler(url, settings=settings)
    scheduler.task(work)
    done, left = threading.Event(), count

    def told(fact: Any) -> None:
        nonlocal left
        left -= fact.fired if kind == "fired" else 1
        if left <= 0:
            done.set()

    scheduler.on("tick.fired" if kind == "fired" else "run.succeeded", told)
    with scheduler:
        # When all have been added, and the node has been quiet for a while.
        due = datetime.now(UTC) + timedelta(seconds=1 + count / 1_500)
        scheduler.add_many([NewSchedule(f"n{n:05}", at(due), task=work) for n in range(count)])
        assert datetime.now(UTC) < due, "this machine is too slow, or too busy"
        assert done.wait(PATIENCE), f"{left:,} of {count:,} are left"
        return time.time() - due.timestamp()


def lateness(url: str, count: int, seconds: float) -> float:
    scheduler = Scheduler(url)
    scheduler.task(work)
    with scheduler:
        begin = datetime.now(UTC) + timedelta(seconds=1 + count / 1_500)
        each = every(seconds=1, start=begin)
        names = [f"n{n:03}" for n in range(count)]
        scheduler.add_many([NewSchedule(n, each, task=work, overlap="allow") for n in names])
        first = begin.timestamp() + WARM_UP
        time.sleep(first + seconds + 1 - time.time())
    lates = sorted(began - due for due, began in _starts if first <= due < first + seconds)
    assert len(lates) >= count * int(seconds), f"only {len(lates):,} were started"
    return 1000 * lates[-(-99 * len(lates) // 100) - 1]


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(lateness(**given) if "seconds" in given else burst(**given))
