"""Why a run waits, as far as the store and the nodes tell."""

from __future__ import annotations

from datetime import datetime

from tenure.cli.code import unknown_tasks
from tenure.cli.opened import Opened
from tenure.model import RunRecord, RunState
from tenure.node.names import PRESENCE
from tenure.words import relative, short

LOOKED_AT = 10_000


async def why_it_waits(opened: Opened, run: RunRecord, now: datetime) -> str | None:
    """None if it does not wait."""
    if run.state is not RunState.WAITING:
        return None
    if run.due > now:
        again = ", after a failure" if run.failures else ""
        return f"it is due {relative(run.due, now)}{again}"
    if run.lock is not None:
        for other in await opened.runs.find(state=RunState.CLAIMED, limit=LOOKED_AT):
            if other.lock == run.lock:
                return f"its lock key {run.lock} is held by run {other.id} on {short(other.node)}"
    if not any(node.live for node in await opened.leases.all(PRESENCE)):
        return await opened.leases_unknown() or "no node is running"
    missing, _ = await unknown_tasks(opened, {run.task})
    if missing:
        return f"no live node executes task {run.task}"
    if run.lock is not None:
        for other in await opened.runs.find(state=RunState.WAITING, limit=LOOKED_AT):
            if (other.lock, other.task) == (run.lock, run.task) and _place(other) < _place(run):
                return f"run {other.id} of its lock key {run.lock} goes first"
    return (
        f"the nodes that execute task {run.task} have not claimed it yet: they are busy, or as many"
        " of its runs are being executed as max_running allows"
    )


def _place(run: RunRecord) -> tuple[int, bool, datetime, int]:
    """In the queue of its lock key: a run that has begun goes first."""
    return -run.priority, not run.attempt, run.due, run.id
