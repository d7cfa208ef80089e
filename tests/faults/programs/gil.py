"""A program that holds a lease, leads something, and calls C code that keeps the GIL."""

from __future__ import annotations

import ctypes
import json
import logging
import os
import sys
import time

from tenure import Lease, LeaseLost, Leases
from tests.faults.programs.common import Options, start, told


def main(options: Options) -> None:
    leases = Leases(options["url"])

    def on_start(lease: Lease) -> None:
        options.write("leads", term=lease.term)

    def on_stop() -> None:
        options.write("leads no more")

    leading = leases.lead("post", on_start, on_stop, ttl=options["ttl"])
    try:
        with leases.hold("guard", ttl=options["ttl"]) as lease:
            options.write("ready", term=lease.term)
            told(options, "go")
            if options.get("keep_gil"):
                _keep_the_gil(options, options["keep_gil"])
                _try(options, lease)
                told(options, "leave")
    except LeaseLost as lost:
        options.write("left", error=str(lost))
    leading.stop()
    leases.close()
    options.write("ended")


def _keep_the_gil(options: Options, door: str) -> None:
    """From the moment that "keeping" is in the journal no other thread of ours runs, until the test
    opens the other end of this pipe."""
    libc = ctypes.PyDLL(None)  # unlike CDLL, it keeps the GIL during its calls
    line = {"event": "keeping", "who": options.who, "pid": os.getpid(), "at": time.monotonic()}
    text = json.dumps(line).encode() + b"\n"
    file = os.open(options.journal.path, os.O_WRONLY | os.O_APPEND)
    sys.setswitchinterval(1000)  # nor is it handed over between the two calls
    libc.write(file, text, len(text))
    os.close(libc.open(door.encode(), os.O_RDONLY))
    sys.setswitchinterval(0.005)
    os.close(file)


def _try(options: Options, lease: Lease) -> None:
    held, remaining = lease.held, lease.remaining
    try:
        lease.check()
    except LeaseLost as lost:
        options.write("checked", error=str(lost), held=held, remaining=remaining)
    else:
        options.write("checked", error=None, held=held, remaining=remaining)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    start(main)
