"""A process that is a node and nothing else does not search its modules for garbage."""

from __future__ import annotations

import subprocess
import sys

import pytest

COUNTED = """
import gc, os, signal, threading, time, weakref
before = gc.get_freeze_count()  # newer Pythons begin with some
from tenure import {scheduler}

def end():
    global frozen
    until = time.monotonic() + 30
    while not (frozen := gc.get_freeze_count() - before) and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)

scheduler = {scheduler}("memory://")
scheduler.on("node.started", lambda fact: threading.Thread(target=end).start())
{run}

class Node:
    pass

node = Node()
node.itself, seen = node, weakref.ref(node)
del node
gc.collect()
print(frozen, seen() is None)
"""
RUN = {
    "Scheduler": "scheduler.run()",
    "AsyncScheduler": "import asyncio; asyncio.run(scheduler.run())",
}


@pytest.mark.parametrize("scheduler", RUN)
def test_what_exists_at_the_start_is_left_out_and_later_garbage_is_found(scheduler: str) -> None:
    program = COUNTED.format(scheduler=scheduler, run=RUN[scheduler])
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    frozen, collected = told.split()
    assert int(frozen) > 1_000
    assert collected == "True"
