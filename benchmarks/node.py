"""A node as a process of its own: `python -m benchmarks.node OPTIONS`, started by cluster.py.

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

tasks = Tasks()
_starts: list[tuple[float, float]] = []


@tasks.task
def work(run: Run) -> None:
    """Note the nominal time, and when it was really begun."""
    _starts.append((run.nominal.timestamp(), time.time()))


def main(options: dict[str, Any]) -> None:
    logging.basicConfig(level=logging.ERROR)  # what it does is told; warnings are wanted here
    pretend(options["machine"])
    settings = Settings() if options["ttl"] is None else Settings(ttl=options["ttl"])
    scheduler = Scheduler(options["url"], leases=options["leases"], settings=settings)
    scheduler.include(tasks)
    for pattern in TOLD:
        scheduler.on(pattern, _tell)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    scheduler.run()
    _say(STARTS, {"starts": _starts})


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
