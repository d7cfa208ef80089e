"""The part of `tenure doctor` that holds for every store: is the cluster on it well?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from tenure.backends.address import NOWHERE, Address, program
from tenure.cli.events.checks import check_groups, check_log, check_relays
from tenure.cli.hung_runs import check_hung
from tenure.cli.lease_output import state
from tenure.cli.opened import Opened
from tenure.cli.skew import check_skews
from tenure.errors import TenureError
from tenure.model import (
    OWN_LOCK,
    Backlog,
    EventGroup,
    Finding,
    LeaseRecord,
    LoggedEvent,
    RelayStatus,
    RunRecord,
    Schedule,
    Severity,
)
from tenure.node.names import LEADER, PRESENCE, RELAY
from tenure.process.clock import SystemClock
from tenure.schedules.changes import is_orphaned
from tenure.schedules.planning import CANNOT_BE_PLANNED, SET_ASIDE
from tenure.tasks.arguments import LOCK_TOO_LONG
from tenure.tasks.payload import TOO_LARGE
from tenure.words import count, relative, span

T = TypeVar("T")
LATE = timedelta(seconds=10)
WAITED_LONG = timedelta(minutes=1)
SKEW, JUMP = 1.0, 5.0
PLAUSIBLE_YEAR = 2024
_OK, _WARNING, _PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM


async def check_cluster(backend: Opened) -> list[Finding]:
    """Each check by itself: what one of them stumbles over is a finding, and the others go on."""
    found: list[Finding] = []
    before = SystemClock().now()
    now = await backend.now()
    lease_now = await backend.lease_now() if backend.leases_elsewhere else now
    leader = await asked("leader", lambda: backend.leases.read(LEADER), found, None)
    presences = await asked(
        "nodes", lambda: backend.leases.all(PRESENCE), found, list[LeaseRecord]()
    )
    alive = [node for node in presences if state(node, lease_now) == "live"]
    live = {node.holder or "" for node in alive}
    named = await asked(
        "schedules", lambda: backend.schedules.find(limit=100_000), found, dict[str, Schedule]()
    )
    schedules = list(named.values())
    backlog = await asked(
        "due",
        lambda: backend.schedules.backlog(LEADER),
        found,
        Backlog(now, 0, None, 0, 0, None),
    )
    claimed = await asked(
        "nodes",
        lambda: backend.runs.find(state="claimed", limit=10_000),
        found,
        list[RunRecord](),
    )
    groups = await asked("events", backend.events.groups, found, list[EventGroup]())
    nothing: LoggedEvent | None = None
    unplaced = await asked("events", backend.events.unplaced, found, nothing)
    relays = await asked("relays", backend.relays.all, found, list[RelayStatus]())
    held = await asked("relays", lambda: backend.leases.all(RELAY), found, list[LeaseRecord]())
    running = {each.name for each in held if state(each, lease_now) == "live"}
    hint = await asked("leader", backend.leases_unknown, found, None)
    newest = await asked("clock", lambda: _newest(backend), found, None)
    led = leader is not None and state(leader, lease_now) == "live"
    busy = bool(live or backlog.waiting or unplaced or any_active(schedules))
    checks: dict[str, Callable[[], list[Finding]]] = {
        "leader": lambda: [check_leader(leader, lease_now, busy=busy, nodes=alive, hint=hint)],
        "office": lambda: check_office(leader if led else None, backlog.term, backend.address),
        "nodes": lambda: [check_nodes(live, claimed)],
        "hung runs": lambda: check_hung(alive, backend.address),
        "due": lambda: [check_ticks(backlog, led)],
        "waiting runs": lambda: [check_waiting(backlog, backend.address)],
        "schedules": lambda: check_schedules(schedules, backend.address),
        "events": lambda: [
            *check_log(unplaced, now, led=led),
            *check_groups(groups, now, backend.address, alive),
        ],
        "relays": lambda: check_relays(relays, running, now, backend.address, alive),
        "locks": lambda: check_locks(schedules, backend.address),
        "clock": lambda: [check_clock(now, before, newest, leader), *check_skews(alive)],
    }
    for name, check in checks.items():
        try:
            found += check()
        except Exception as error:  # noqa: BLE001 - one check is not to keep us from the others
            found.append(unexpected(name, error))
    return found


async def asked(
    check: str, question: Callable[[], Awaitable[T]], found: list[Finding], unknown: T
) -> T:
    """The store's answer. If it has none, that is a finding, and `unknown` stands for it."""
    try:
        return await question()
    except TenureError as error:
        found.append(Finding(check, _PROBLEM, str(error)))
    except Exception as error:  # noqa: BLE001 - one check is not to keep us from the others
        found.append(unexpected(check, error))
    return unknown


def unexpected(check: str, error: Exception) -> Finding:
    """What nobody has thought of."""
    return Finding(
        check,
        _PROBLEM,
        f"it could not be checked: {type(error).__name__}: {error}",
        "If a row is named above, mend it first. If none is, report it: it is a defect in Tenure.",
    )


async def check_leases(backend: Opened) -> list[Finding]:
    """The same where there is nothing but leases."""
    before = SystemClock().now()
    now = await backend.lease_now()
    records = await backend.leases.all()
    live = [record for record in records if state(record, now) == "live"]
    nodes = [record for record in live if record.name.startswith(PRESENCE)]
    findings = [Finding("leases", _OK, f"{count(len(live), 'live lease')} of {len(records):,}")]
    leader = next((record for record in records if record.name == LEADER), None)
    if leader is not None:
        findings.append(check_leader(leader, now, busy=bool(nodes), nodes=nodes))
    return [*findings, check_clock(now, before, None, leader)]


def check_leader(
    leader: LeaseRecord | None,
    now: datetime,
    *,
    busy: bool,
    nodes: Sequence[LeaseRecord] = (),
    hint: str | None = None,
) -> Finding:
    """`nodes`: those that live. `hint`: why they may not be seen from here."""
    if leader is None and hint is not None:
        return Finding("leader", _WARNING, "it is not known here who leads", hint)
    if leader is None or state(leader, now) != "live":
        if nodes and all(node.info.get("leads") is False for node in nodes):
            return Finding(
                "leader",
                _PROBLEM,
                "nobody leads: every node here only executes (leads=False, --no-lead)",
                f"Start one that leads: {program().run}, without --no-lead.",
            )
        return Finding(
            "leader",
            _PROBLEM if busy else _WARNING,
            "nobody leads: nothing is fired",
            f"Start a node: {program().run}. If nodes are running, their logs say what"
            " keeps them from leading.",
        )
    renewed = f"renewed {relative(leader.renewed_at, now)}" if leader.renewed_at else ""
    text = f"pid {leader.pid} on {leader.host}, term {leader.term}, ttl {leader.ttl:g} s, {renewed}"
    if leader.unreadable:
        return Finding("leader", _WARNING, f"{text}; {leader.unreadable}", "See the rows above.")
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


def check_office(leader: LeaseRecord | None, term: int, at: Address = NOWHERE) -> list[Finding]:
    """Of a leader that lives: does the store take what it writes?"""
    if leader is None or leader.unreadable or term == leader.term:
        return []
    if term < leader.term:
        text = f"term {leader.term} leads and is not in office yet: term {term} is"
        return [Finding("office", _WARNING, text, "It takes office within a moment. Look again.")]
    return [
        Finding(
            "office",
            _PROBLEM,
            f"term {term} is in office, above term {leader.term} of the leader: nobody can fire",
            "The leader finds out, and asks for a term above it, within seconds. If this stays,"
            f" its log says why; or have another lead:"
            f" `{at.command('leases', 'evict', name=LEADER)}`",
        )
    ]


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
            "The leader does not get through: its log says why, and names who is in the way. If a"
            " lock or an open transaction is listed above, start there."
            if led
            else "They are fired, by their catch-up policy, as soon as there is a leader.",
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
            f"{_mending(schedule, at)}, then:"
            f" `{at.command('schedules', 'resume', name=schedule.name)}`",
        )
        for schedule in broken[:20]
    ]


def _mending(schedule: Schedule, at: Address) -> str:
    """What to do about the reason for which it was set aside."""
    reason = (schedule.reason or "").removeprefix(f"{SET_ASIDE}: ")
    update = partial(at.command, "schedules", "update", name=schedule.name)
    if reason.startswith(TOO_LARGE):
        return f"Give it smaller arguments (`{update('--kwargs', 'JSON')}`)"
    if reason.startswith(LOCK_TOO_LONG):
        return f"Give it another lock key (`{update('--lock', 'KEY')}`)"
    if reason.startswith(CANNOT_BE_PLANNED):
        return "Mend its row: if one is named above, with the SQL given there"
    return "Mend its trigger (start the code that declares it, or scheduler.update)"


def check_locks(schedules: list[Schedule], at: Address = NOWHERE) -> list[Finding]:
    """Those whose lock key is another schedule's own: stored by hand, or by older code."""
    return [
        Finding(
            "locks",
            _PROBLEM,
            f"{schedule.name!r} has the lock key {schedule.spec.lock!r}, and such keys are the"
            " schedules' own: its runs may hold up another schedule",
            "Give it another: `"
            f"{at.command('schedules', 'update', '--lock', 'KEY', name=schedule.name)}`",
        )
        for schedule in schedules
        if str(schedule.spec.lock).startswith(OWN_LOCK)
        and schedule.spec.lock != f"{OWN_LOCK}{schedule.uid}"
    ][:20]


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
    moments = [run.created_at for run in await backend.runs.find(limit=1)]
    if backend.leases_elsewhere is None:  # else they are by another clock
        moments += [line.acquired_at for line in await backend.leases.history(limit=1)]
    return max(moments, default=None)
