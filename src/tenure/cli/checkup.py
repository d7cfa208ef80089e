"""The part of `tenure doctor` that holds for every store: is the cluster on it well?"""

from __future__ import annotations

from datetime import datetime, timedelta

from tenure.address import NOWHERE, Address
from tenure.changes import is_orphaned
from tenure.cli.held import state
from tenure.cli.output import count, relative, span
from tenure.cli.store import Opened
from tenure.clock import SystemClock
from tenure.model import Backlog, Finding, LeaseRecord, RunRecord, Schedule, Severity
from tenure.node import LEADER
from tenure.planning import SET_ASIDE
from tenure.presence import PRESENCE

LATE = timedelta(seconds=10)
WAITED_LONG = timedelta(minutes=1)
SKEW, JUMP = 1.0, 5.0
PLAUSIBLE_YEAR = 2024
_OK, _WARNING, _PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM


async def check_cluster(backend: Opened) -> list[Finding]:
    before = SystemClock().now()
    now = await backend.schedules.now()
    lease_now = await backend.lease_now() if backend.leases_elsewhere else now
    leader = await backend.leases.read(LEADER)
    presences = await backend.leases.all(PRESENCE)
    live = {node.holder or "" for node in presences if state(node, lease_now) == "live"}
    schedules = await backend.schedules.all(limit=100_000)
    backlog = await backend.schedules.backlog()
    claimed = await backend.runs.all(state="claimed", limit=10_000)
    newest = await _newest(backend)
    return [
        check_leader(
            leader, lease_now, busy=bool(live or backlog.waiting or any_active(schedules))
        ),
        check_nodes(live, claimed),
        check_ticks(backlog, leader is not None and state(leader, lease_now) == "live"),
        check_waiting(backlog, backend.address),
        *check_schedules(schedules, backend.address),
        check_clock(now, before, newest, leader),
    ]


async def check_leases(backend: Opened) -> list[Finding]:
    """The same where there is nothing but leases."""
    now = await backend.lease_now()
    records = await backend.leases.all()
    live = [record for record in records if state(record, now) == "live"]
    nodes = [record for record in live if record.name.startswith(PRESENCE)]
    findings = [Finding("leases", _OK, f"{count(len(live), 'live lease')} of {len(records):,}")]
    leader = next((record for record in records if record.name == LEADER), None)
    if leader is not None:
        findings.append(check_leader(leader, now, busy=bool(nodes)))
    return findings


def check_leader(leader: LeaseRecord | None, now: datetime, *, busy: bool) -> Finding:
    if leader is None or state(leader, now) != "live":
        return Finding(
            "leader",
            _PROBLEM if busy else _WARNING,
            "nobody leads: nothing is fired",
            "Start a node: tenure run MODULE:ATTR. If nodes are running, their logs say what"
            " keeps them from leading.",
        )
    renewed = f"renewed {relative(leader.renewed_at, now)}" if leader.renewed_at else ""
    text = f"pid {leader.pid} on {leader.host}, term {leader.term}, ttl {leader.ttl:g} s, {renewed}"
    if leader.renewed_at is not None and now - leader.renewed_at > timedelta(
        seconds=leader.ttl * 2 / 3
    ):
        return Finding(
            "leader",
            _WARNING,
            text,
            "It renews every third of its ttl at the latest. It may be frozen or starved: look"
            " at that process.",
        )
    return Finding("leader", _OK, text)


def check_nodes(live: set[str], claimed: list[RunRecord]) -> Finding:
    stale = sorted({run.node for run in claimed if run.node and run.node not in live})
    nodes = count(len(live), "live node")
    if stale:
        runs = [str(run.id) for run in claimed if run.node in stale]
        return Finding(
            "nodes",
            _WARNING,
            f"{nodes}; {', '.join(stale)} not live but with claimed runs ({', '.join(runs[:10])})",
            "The leader takes them over within seconds; if nobody leads, start a node.",
        )
    return Finding("nodes", _OK, f"{nodes}, {count(len(claimed), 'claimed run')}")


def check_ticks(backlog: Backlog, led: bool) -> Finding:
    if backlog.due and backlog.next_due is not None and backlog.now - backlog.next_due > LATE:
        return Finding(
            "due",
            _PROBLEM,
            f"{backlog.due:,} schedules are due and not fired, the oldest"
            f" {relative(backlog.next_due, backlog.now)}",
            "The leader does not get through: see the write lock above and its log."
            if led
            else "They are fired, by their catch-up policy, as soon as somebody leads.",
        )
    if backlog.next_due is None:
        return Finding("due", _OK, "nothing is planned")
    return Finding("due", _OK, f"next {relative(backlog.next_due, backlog.now)}")


def check_waiting(backlog: Backlog, at: Address = NOWHERE) -> Finding:
    oldest = backlog.oldest_waiting
    if oldest is not None and backlog.now - oldest > WAITED_LONG:
        return Finding(
            "waiting runs",
            _WARNING,
            f"{backlog.waiting:,} wait, the oldest was due {relative(oldest, backlog.now)}",
            "No live node knows the task, all are busy (raise concurrency or start another), or"
            f" its lock key is held: `{at.command('runs', 'list', '--state', 'waiting')}`,"
            f" `{at.command('leases', 'list')}`",
        )
    return Finding("waiting runs", _OK, f"{backlog.waiting:,}")


def check_schedules(schedules: list[Schedule], at: Address = NOWHERE) -> list[Finding]:
    broken = [s for s in schedules if not s.active and (s.reason or "").startswith(SET_ASIDE)]
    orphaned = sum(is_orphaned(s) for s in schedules)
    paused = sum(not s.active for s in schedules) - len(broken) - orphaned
    if not broken:
        text = f"{len(schedules):,}, of which {paused:,} paused"
        return [Finding("schedules", _OK, text + (f", {orphaned:,} orphaned" if orphaned else ""))]
    return [
        Finding(
            "schedules",
            _PROBLEM,
            f"{schedule.name!r} does not fire; {schedule.reason}",
            "Mend its trigger (start the code that declares it, or scheduler.update), then:"
            f" `{at.command('schedules', 'resume', name=schedule.name)}`",
        )
        for schedule in broken[:20]
    ]


def any_active(schedules: list[Schedule]) -> bool:
    return any(s.active and s.next_due is not None for s in schedules)


def check_clock(
    now: datetime, here: datetime, newest: datetime | None, leader: LeaseRecord | None
) -> Finding:
    """Wall clocks decide only what is due; still, a wrong one fires at the wrong time."""
    problem = None
    skew = (now - here).total_seconds()
    jump = _jump(leader)
    if now.year < PLAUSIBLE_YEAR:
        problem = f"the store's clock says {now:%Y-%m-%d}"
    elif newest is not None and newest > now + timedelta(seconds=JUMP):
        problem = (
            f"the newest record is {span((newest - now).total_seconds())} in the future: the clock"
            " was set back, or was wrong when it was written"
        )
    elif abs(jump) > JUMP:
        problem = f"the wall clock moved by {jump:+.0f} s against the boot clock just now"
    if problem:
        return Finding(
            "clock",
            _PROBLEM,
            problem,
            "Set the clock of the store's machine and keep it with NTP. Nothing fires twice; what"
            " lies in the future waits until the clock is there.",
        )
    if abs(skew) > SKEW:
        return Finding(
            "clock",
            _WARNING,
            f"the store's clock and this machine's are {span(abs(skew))} apart",
            "The store's decides; this machine's logs show other times.",
        )
    return Finding("clock", _OK, f"{now.astimezone():%Y-%m-%d %H:%M:%S %Z}, no skew")


def _jump(leader: LeaseRecord | None) -> float:
    """How far the wall clock moved since the leader's last renewal.

    Its expiry is kept on a clock that nobody sets; the time of its renewal is wall time.
    """
    if leader is None or not leader.live or not (leader.expires_at and leader.renewed_at):
        return 0.0
    planned = leader.renewed_at + timedelta(seconds=leader.ttl)
    return (leader.expires_at - planned).total_seconds()


async def _newest(backend: Opened) -> datetime | None:
    """When the newest thing on record was written, by the clock of its time."""
    moments = [run.created_at for run in await backend.runs.all(limit=1)]
    if backend.leases_elsewhere is None:  # else they are by another clock
        moments += [line.acquired_at for line in await backend.leases.history(limit=1)]
    return max(moments, default=None)
