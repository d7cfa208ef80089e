"""A node as a process of its own: `python -m benchmarks.node OPTIONS`, started by cluster.py.

Or several in one process, as light stand-ins: each with its own thread and connections, as if it
were alone; only the interpreter is shared.

It tells what happens as lines of JSON on its output, and ends when its input does, so that it
cannot outlive the benchmark.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from typing import Any

from tenure import Run, Scheduler, Settings, Tasks
from tenure.facts import Fact
from tests.faults.programs.machine import pretend

TOLD = ("leader.*", "tick.fired", "node.*", "store.*", "service.failed")
STARTS = "starts"
HELD = "held"

tasks = Tasks()
_starts: list[tuple[float, float]] = []


@tasks.task
def work(run: Run) -> None:
    """Note the nominal time, and when it was really begun."""
    _starts.append((run.nominal.timestamp(), time.time()))


@tasks.task
def hold(run: Run) -> None:
    """The first attempt lasts as long as its process."""
    _say(HELD, {"run": run.id, "attempt": run.attempt})
    if run.attempt == 1:
        threading.Event().wait()


def main(options: dict[str, Any]) -> None:
    logging.basicConfig(level=logging.ERROR)  # what it does is told; warnings are wanted here
    pretend(options["machine"])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    first, *others = [_scheduler(options) for _ in range(options["nodes"])]
    for other in others:
        other.start()
    first.run()
    for other in others:
        other.stop()
    _say(STARTS, {"starts": _starts})


def _scheduler(options: dict[str, Any]) -> Scheduler:
    settings = Settings(**options["settings"])
    scheduler = Scheduler(options["url"], leases=options["leases"], settings=settings)
    scheduler.include(tasks)
    for pattern in TOLD:
        scheduler.on(pattern, _tell)
    return scheduler


def _tell(fact: Fact) -> None:
    _say(fact.name, fact.values())


def _say(name: str, values: dict[str, Any]) -> None:
    line = {"at": time.time(), "fact": name, "values": values}
    sys.stdout.write(json.dumps(line, default=str) + "\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    os.read(0, 1)  # not through sys.stdin, whose lock would be in the way of an ordinary end
    os._exit(1)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
