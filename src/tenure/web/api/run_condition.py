"""Of one run: why it waits, how far it has come, and whether it hangs."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from tenure.model import LeaseRecord, RunRecord, RunState
from tenure.node.names import PRESENCE
from tenure.web.api.access import Opened
from tenure.web.api.values import Answer, Moment, iso

LOOKED_AT = 10_000


class Waits(Answer):
    """Why a run waits, as far as the store and the nodes tell."""

    because: Literal["due later", "lock held", "no node", "no task", "not claimed yet"]
    text: str
    run: int | None
    """The run that holds the lock key."""


class HungAnswer(Answer):
    """A run that was told to end and goes on, as its node tells."""

    node: str | None
    host: str | None
    pid: int | None
    since: Moment | None
    stack: str


async def why_it_waits(opened: Opened, run: RunRecord) -> Waits | None:
    """None if it does not wait."""
    if run.state is not RunState.WAITING:
        return None
    if run.due > await opened.stores.now():
        again = " again, after a failure" if run.failures else ""
        return Waits("due later", f"It is due{again} at {iso(run.due)}.", None)
    if run.lock is not None:
        claimed = await opened.stores.runs.find(state=RunState.CLAIMED, limit=LOOKED_AT)
        for other in claimed:
            if other.lock == run.lock:
                text = f"Its lock key {run.lock} is held by run {other.id}."
                return Waits("lock held", text, other.id)
    nodes = [node for node in await opened.stores.leases.all(PRESENCE) if node.live]
    if not nodes:
        return Waits("no node", "No node is known here.", None)
    if not any(_executes(node, run.task) for node in nodes):
        return Waits("no task", f"No live node executes the task {run.task}.", None)
    text = "The nodes are busy, another run of its lock key goes first, or it was just added."
    return Waits("not claimed yet", text, None)


def _executes(node: LeaseRecord, task: str) -> bool:
    """As far as it says: older code, or a node with very many tasks, does not."""
    told = node.info.get("task_names")
    if isinstance(told, list) and told:
        return task in told
    return node.info.get("tasks") != 0


async def hung(opened: Opened, run: RunRecord) -> HungAnswer | None:
    if run.state is not RunState.CLAIMED or run.node is None:
        return None
    node = await opened.stores.leases.read(f"{PRESENCE}{run.node}")
    told = None if node is None or not node.live else node.info.get("hung_runs")
    for each in told if isinstance(told, list) else ():
        if isinstance(each, dict) and (each.get("run"), each.get("claim")) == (run.id, run.claim):
            assert node is not None
            since, stack = _moment(each.get("since")), str(each.get("stack"))
            return HungAnswer(node.holder, node.host, node.pid, since, stack)
    return None


def _moment(told: Any) -> str | None:
    """A time of a record that anyone may have edited."""
    try:
        moment = datetime.fromisoformat(told) if isinstance(told, str) else None
    except ValueError:
        return None
    return None if moment is None or moment.tzinfo is None else iso(moment)
