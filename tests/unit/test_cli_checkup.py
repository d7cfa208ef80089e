"""What `tenure doctor` makes of a cluster's records."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tenure.backends.memory import MemoryBackend
from tenure.cli.checkup import (
    check_clock,
    check_cluster,
    check_leader,
    check_ticks,
    check_waiting,
)
from tenure.cli.held import state
from tenure.cli.store import Opened
from tenure.model import Backlog, LeaseRecord, Severity

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


LEADER = LeaseRecord(
    name="tenure/leader",
    term=3,
    holder="host:1:a",
    host="host",
    pid=1,
    ttl=15,
    fenced=True,
    counter=9,
    acquired_at=ago(100),
    renewed_at=ago(2),
    expires_at=ago(-13),
    live=True,
)
IDLE = Backlog(NOW, 0, None, 0, 0, None)


def test_lease_of_another_boot_whose_time_is_up_is_overdue() -> None:
    assert state(LEADER, NOW) == "live"
    assert state(replace(LEADER, expires_at=ago(60)), NOW) == "overdue"
    assert state(replace(LEADER, live=False), NOW) == "expired"
    assert state(replace(LEADER, holder=None, live=False), NOW) == "free"


def test_leader_that_is_late_with_its_renewal_is_suspicious() -> None:
    assert check_leader(LEADER, NOW, busy=True).severity is Severity.OK
    late = replace(LEADER, renewed_at=ago(11), expires_at=ago(-4))
    assert check_leader(late, NOW, busy=True).severity is Severity.WARNING


def test_missing_leader_is_a_problem_only_if_there_is_something_to_do() -> None:
    assert check_leader(None, NOW, busy=True).severity is Severity.PROBLEM
    assert check_leader(None, NOW, busy=False).severity is Severity.WARNING


def test_schedules_that_stay_due_are_a_problem() -> None:
    assert check_ticks(IDLE, led=True).severity is Severity.OK
    assert check_ticks(replace(IDLE, due=1, next_due=ago(1)), led=True).severity is Severity.OK
    stuck = check_ticks(replace(IDLE, due=4, next_due=ago(30)), led=True)
    assert stuck.severity is Severity.PROBLEM
    assert "30s ago" in stuck.text


def test_run_that_waits_long_is_a_warning() -> None:
    assert check_waiting(replace(IDLE, waiting=1, oldest_waiting=ago(5))).severity is Severity.OK
    waiting = check_waiting(replace(IDLE, waiting=1, oldest_waiting=ago(300)))
    assert waiting.severity is Severity.WARNING


def test_clock_that_was_set_back_or_forward_is_noticed() -> None:
    assert check_clock(NOW, NOW, ago(5), LEADER).severity is Severity.OK
    assert "in the future" in check_clock(NOW, NOW, ago(-600), LEADER).text
    jumped = replace(LEADER, renewed_at=ago(3600), expires_at=ago(-13))
    assert "moved by +3598 s" in check_clock(NOW, NOW, None, jumped).text
    assert check_clock(NOW, ago(60), None, LEADER).severity is Severity.WARNING
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert check_clock(epoch, epoch, None, None).severity is Severity.PROBLEM


async def test_empty_store_has_no_problem() -> None:
    findings = await check_cluster(Opened(MemoryBackend(), None))
    assert {finding.severity for finding in findings} == {Severity.OK, Severity.WARNING}
