"""A process with a scheduler and a kept lease, which forks. What its child does is `child`.

idle        waits for the test's word; uses nothing of Tenure
exits       leaves the lease's block by an exit, as a child of os.fork() may
schedules   looks at what it inherited, then starts the very same scheduler object for itself
asks        asks for a lease, and tells of the error

How it is forked is `how`: fork, multiprocessing; in_c: by a library that tells Python only in the
child, as uWSGI does; unseen: by one that does not tell Python at all. With subprocess the child is
another program, which only waits.
"""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable

from tenure import Lease, LeaseLost, Leases, Scheduler, TenureError
from tests.faults.programs.common import Options, start, told
from tests.faults.programs.node import make

_WAITS = """
import sys
from pathlib import Path
from tests.faults.support import Journal
Journal(Path(sys.argv[1])).write("forked", "child")
sys.stdin.read()
"""


def main(options: Options) -> None:
    scheduler = make(options)
    leases = Leases(options["url"])
    leading = leases.leading("post", ttl=options["ttl"])
    with scheduler, leading, leases.hold("guard", ttl=options["ttl"]) as lease:
        while not (scheduler.is_leader and leading.is_leader):
            time.sleep(0.01)
        options.write("ready", term=lease.term)
        told(options, "fork")

        def child() -> None:
            options.who = "child"
            options.write("forked", leads=leading.is_leader, schedules=scheduler.running)
            _CHILDREN[options["child"]](options, scheduler, leases, lease)

        _fork(options, child)
        options.write("parent goes on")
        while told(options, "check"):
            lease.check()
            options.write("parent checked", term=lease.term, leads=leading.is_leader)
    options.write("ended")


def _fork(options: Options, child: Callable[[], None]) -> None:
    how = options.get("how", "fork")
    if how == "subprocess":
        subprocess.Popen([sys.executable, "-c", _WAITS, str(options.journal.path)])
    elif how == "multiprocessing":
        multiprocessing.get_context("fork").Process(target=child).start()
    elif (os.fork if how == "fork" else ctypes.PyDLL(None).fork)() == 0:
        if how == "in_c":
            ctypes.pythonapi.PyOS_AfterFork_Child()
        child()
        os._exit(0)


def _idle(options: Options, scheduler: Scheduler, leases: Leases, lease: Lease) -> None:
    told(options, "end")


def _exits(options: Options, scheduler: Scheduler, leases: Leases, lease: Lease) -> None:
    sys.exit(0)  # unwinds the blocks that it inherited, and ends as an interpreter does


def _schedules(options: Options, scheduler: Scheduler, leases: Leases, lease: Lease) -> None:
    try:
        lease.check()
    except LeaseLost as error:
        options.write("refused", error=str(error), held=lease.held)
    options.write("asked", held_elsewhere=leases.acquire("guard") is None)
    with leases.hold("own", ttl=options["ttl"]) as own:
        own.check()
        options.write("has its own", term=own.term)
        with scheduler:
            options.write("started", node=scheduler.node)
            told(options, "end")
    options.write("child ended")


def _asks(options: Options, scheduler: Scheduler, leases: Leases, lease: Lease) -> None:
    try:
        leases.acquire("guard")
    except TenureError as error:
        options.write("refused", error=str(error))
    told(options, "end")


_CHILDREN = {"idle": _idle, "exits": _exits, "schedules": _schedules, "asks": _asks}

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    start(main)
