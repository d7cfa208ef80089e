"""`single_instance`: waits inside the block until the test says leave."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from tenure import LeaseHeld, single_instance
from tests.faults.programs.common import Options, start, told


def main(options: Options) -> None:
    instance = single_instance(
        options["url"], options["name"], options["on_held"], ttl=options["ttl"]
    )
    options.write("asked")
    gate = options.get("gate")
    while gate and not Path(gate).exists():
        time.sleep(0.0005)
    try:
        with instance as guard:
            term = guard.lease.term if guard.lease else None
            options.write("entered", held=guard.held, term=term)
            told(options, "leave")
    except LeaseHeld as held:
        options.write("refused", error=str(held))
    options.write("left")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    start(main)
