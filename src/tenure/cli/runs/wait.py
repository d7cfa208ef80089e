"""Waiting for a run to end, from outside."""

from __future__ import annotations

from tenure.cli.opened import Opened
from tenure.model import RunRecord, RunState
from tenure.process.clock import SystemClock

FINISHED = frozenset(RunState) - {RunState.WAITING, RunState.CLAIMED}
LOOK_FIRST, LOOK_LEAST_OFTEN = 0.02, 0.5


async def wait_for(backend: Opened, run: RunRecord, seconds: float) -> RunRecord:
    """The run when it has ended, or as it is after so many seconds."""
    clock, step = SystemClock(), LOOK_FIRST
    until = clock.monotonic() + seconds
    while run.state not in FINISHED:
        left = until - clock.monotonic()
        if left <= 0:
            break
        await clock.sleep(min(step, left))
        step = min(step * 1.5, LOOK_LEAST_OFTEN)
        for found in await backend.runs.find([run.id]):
            run = found
    return run
