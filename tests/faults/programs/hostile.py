"""A node that executes tasks that behave badly. Its own module is what their processes import."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from tenure import Run, Scheduler, Settings
from tests.faults.programs.common import Options
from tests.faults.programs.hostile_tasks import isolated, tasks
from tests.faults.programs.node import listener

options = Options(json.loads(sys.argv[1]))
scheduler = Scheduler(
    options["url"],
    settings=Settings(ttl=options.get("ttl", 30.0), reap_every=0.5, **options.get("settings", {})),
)
scheduler.include(tasks)
scheduler.include(isolated)
scheduler.on("run.failed", lambda fact: sys.exit(3))
scheduler.on("*", listener(options))


@scheduler.task(isolate=True)
def of_the_main_module() -> list[object]:
    return [__name__, os.environ.get("AROUND")]


def around(call: Callable[[], Any], run: Run) -> Any:
    os.environ["AROUND"] = run.task
    return call()


if options.get("around"):
    scheduler.around(around)

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    scheduler.run()
    options.write("ended")
    null = os.open(os.devnull, os.O_RDWR)
    for file in range(3):  # Python exits with 120 if it cannot flush what a task has closed
        os.dup2(null, file)
