"""Adds one to a number in a file, again and again: read, pause, write. Only a lease protects it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tenure import Leases
from tests.faults.programs.common import Options, start

WIDTH = 12


def main(options: Options) -> None:
    leases = Leases(options["url"])
    stop = Path(options["stop"])
    while not stop.exists():
        with leases.hold("counter", ttl=options["ttl"], wait=30) as lease:
            value = _read(options["file"]) + 1
            time.sleep(0.001)
            _write(options["file"], value)
            options.write("counted", value=value, term=lease.term)
    leases.close()


def _read(path: str) -> int:
    return int(Path(path).read_text())


def _write(path: str, value: int) -> None:
    file = os.open(path, os.O_WRONLY)
    os.pwrite(file, f"{value:{WIDTH}d}".encode(), 0)  # whole, even if it is the last thing done
    os.close(file)


if __name__ == "__main__":
    start(main)
