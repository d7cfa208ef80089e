"""Schedules and runs in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from tenure.errors import InvalidTrigger
from tenure.model import OWN_LOCK, CatchUp, LeaseRecord, OnCrash, Overlap, RunRecord, RunState
from tenure.model import Schedule as StoredSchedule
from tenure.node.names import PRESENCE
from tenure.schedules.changes import ORPHANED, PAUSED, is_orphaned
from tenure.schedules.planning import SET_ASIDE
from tenure.web.reading import Store, is_live
from tenure.words import count, relative, short, span

LOOKED_AT = 500
TONES = {
    "active": "ok",
    "succeeded": "ok",
    "fired": "ok",
    "live": "ok",
    "claimed": "run",
    "running": "run",
    "waiting": "",
    "ended": "",
    "free": "",
    "paused": "warn",
    "orphaned": "warn",
    "skipped": "warn",
    "missed": "warn",
    "cancelled": "warn",
    "put back": "warn",
    "expired": "warn",
    "overdue": "warn",
    "failed": "bad",
    "lost": "bad",
    "crashed": "bad",
    "set aside": "bad",
}
"""How a state looks; none of these: plain."""


def state(schedule: StoredSchedule) -> str:
    if schedule.active:
        return "active" if schedule.next_due is not None else "ended"
    if is_orphaned(schedule):
        return ORPHANED
    return SET_ASIDE if (schedule.reason or "").startswith(SET_ASIDE) else PAUSED


def rule(schedule: StoredSchedule) -> str:
    try:
        return str(schedule.trigger)
    except InvalidTrigger:
        return "unreadable"


def target(schedule: StoredSchedule) -> str:
    event = schedule.spec.event
    return schedule.task if event is None else f"emits {event.type} to {event.topic}"


def policies(schedule: StoredSchedule) -> Iterator[tuple[str, str]]:
    """What holds for its occurrences and runs, each in a sentence."""
    spec = schedule.spec
    yield (
        "If it is late",
        {
            CatchUp.LATEST: "the latest occurrence is fired, earlier ones are recorded as missed",
            CatchUp.ALL: f"all are fired in their order, at most {spec.catch_up_limit:,}",
            CatchUp.NONE: f"it is fired up to {span(spec.catch_up_grace)} late, and missed then",
        }.get(spec.catch_up, str(spec.catch_up)),
    )
    if spec.event is not None:
        return
    yield (
        "If an earlier run is unfinished",
        {
            Overlap.SKIP: "the occurrence is skipped",
            Overlap.QUEUE: "the run waits behind it",
            Overlap.ALLOW: "both run at the same time",
        }.get(spec.overlap, str(spec.overlap)),
    )
    lock = spec.lock or ""
    own = not lock or lock.startswith(OWN_LOCK)
    yield "Lock key", "the schedule's own" if own else lock
    yield (
        "If it fails",
        (
            f"{'it is tried again, up to ' + count(spec.retries, 'time')}"
            if spec.retries
            else "it is not tried again"
        ),
    )
    yield (
        "If its node dies",
        (
            "another node runs it again"
            if spec.on_crash is OnCrash.RERUN
            else "it is recorded as lost"
        ),
    )
    yield "Timeout", "none" if spec.timeout is None else span(spec.timeout)
    if spec.priority:
        yield "Priority", str(spec.priority)


@dataclass(frozen=True, slots=True)
class Waits:
    """Why a run waits, and the run that is in the way, if one is."""

    text: str
    behind: int | None = None


async def why_it_waits(store: Store, run: RunRecord, now: datetime) -> Waits | None:
    """None if it does not wait. Looks at a few hundred other runs at most."""
    if run.state is not RunState.WAITING:
        return None
    if run.due > now:
        again = ", after a failure" if run.failures else ""
        return Waits(f"It is due {relative(run.due, now)}{again}.")
    lease_now = await store.lease_now()
    nodes = [each for each in await store.leases.all(PRESENCE) if is_live(each, lease_now)]
    if run.lock is not None:
        for other in await store.overview.unfinished("claimed", LOOKED_AT):
            if other.lock == run.lock:
                held = f"Its lock key is held by run {other.id} on {short(other.node)}."
                return Waits(held, other.id)
    if not nodes:
        return Waits("No node is running.")
    if not any(_executes(node, run.task) for node in nodes):
        return Waits(f"No live node executes the task {run.task}.")
    if run.lock is not None:
        for other in await store.overview.unfinished("waiting", LOOKED_AT):
            if (other.lock, other.task) == (run.lock, run.task) and _place(other) < _place(run):
                return Waits(f"Run {other.id} of the same lock key goes first.", other.id)
    return Waits(
        f"The nodes that execute {run.task} have not claimed it yet: they are busy, or as many of"
        " its runs are being executed as max_running allows."
    )


def where_it_hangs(nodes: Sequence[LeaseRecord], run: RunRecord) -> str | None:
    """The stack of a run that was told to end and goes on, as its node says; else None."""
    for node in nodes:
        told = node.info.get("hung_runs") if node.holder == run.node else None
        for each in told if isinstance(told, list) else ():
            if isinstance(each, dict) and (each.get("run"), each.get("claim")) == (
                run.id,
                run.claim,
            ):
                return str(each.get("stack") or "")
    return None


def _executes(node: LeaseRecord, task: str) -> bool:
    """As far as it says: older code, or one with many tasks, does not."""
    told = node.info.get("task_names")
    if isinstance(told, list) and told:
        return task in told
    return node.info.get("tasks") != 0


def _place(run: RunRecord) -> tuple[int, bool, datetime, int]:
    return -run.priority, not run.attempt, run.due, run.id
