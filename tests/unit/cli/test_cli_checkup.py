"""What `tenure doctor` makes of a cluster's records."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenure import triggers
from tenure.backends.memory import MemoryBackend
from tenure.cli.checkup import (
    check_clock,
    check_cluster,
    check_leader,
    check_schedules,
    check_ticks,
    check_waiting,
)
from tenure.cli.hung_runs import check_hung
from tenure.cli.lease_output import state
from tenure.cli.opened import Opened
from tenure.cli.skew import check_skews
from tenure.model import Backlog, Change, DueSchedule, Holder, LeaseRecord, ScheduleSpec, Severity
from tenure.schedules.planning import plan

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


def test_nodes_that_only_execute_are_told_of() -> None:
    worker = replace(LEADER, name="tenure/node/host:2:b", info={"leads": False})
    other = replace(worker, info={"leads": True})
    told = check_leader(None, NOW, busy=True, nodes=[worker, worker])
    assert told.severity is Severity.PROBLEM
    assert "every node here only executes" in told.text
    assert "only executes" not in check_leader(None, NOW, busy=True, nodes=[worker, other]).text
    assert check_leader(LEADER, NOW, busy=True, nodes=[worker]).severity is Severity.OK


def test_schedules_that_stay_due_are_a_problem() -> None:
    assert check_ticks(IDLE, led=True).severity is Severity.OK
    assert check_ticks(replace(IDLE, due=1, next_due=ago(1)), led=True).severity is Severity.OK
    stuck = check_ticks(replace(IDLE, due=4, next_due=ago(30)), led=True)
    assert stuck.severity is Severity.PROBLEM
    assert "30s ago" in stuck.text
    assert "write lock above" not in (stuck.remedy or ""), "not every store has that check"
    assert "log" in (stuck.remedy or "")


@pytest.mark.parametrize(
    ("wrong", "remedy"),
    [
        ({"trigger": "{"}, "Mend its trigger"),
        ({"payload": 2_000}, "--kwargs"),
        ({"lock": "x" * 2_000}, "--lock KEY"),
        ({"next_nominal": "yesterday"}, "Mend its row"),
    ],
)
async def test_remedy_for_a_schedule_set_aside_fits_the_reason(
    wrong: dict[str, Any], remedy: str
) -> None:
    backend = MemoryBackend()
    trigger = triggers.dump(triggers.every(hours=1).anchored(NOW))
    spec = ScheduleSpec(name="job", task="job", trigger=trigger)
    [stored] = await backend.schedules.change([Change(spec=spec, next_nominal=NOW, next_due=NOW)])
    due = DueSchedule(
        uid=stored.uid,
        name=stored.name,
        version=stored.version,
        trigger=trigger,
        next_nominal=NOW,
        next_due=NOW,
        overlap=spec.overlap,
        catch_up=spec.catch_up,
        catch_up_limit=spec.catch_up_limit,
        catch_up_grace=spec.catch_up_grace,
        lock=None,
    )
    [fault] = plan([due._replace(**wrong)], NOW, payload_limit=1_000).faults
    assert fault.until is None
    aside = replace(stored, active=False, reason=fault.reason)
    [found] = check_schedules([aside])
    assert remedy in (found.remedy or "")
    assert ("trigger" in (found.remedy or "")) == ("trigger" in remedy)


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


def test_nodes_with_a_wrong_clock_are_named() -> None:
    node = replace(LEADER, name="tenure/node/host:1:a")
    told: list[object] = [None, 1.5, "nonsense", float("nan"), 10**400]
    assert not check_skews(replace(node, info={"skew": each}) for each in told)
    ahead, behind = check_skews(replace(node, info={"skew": each}) for each in (42.04, -3))
    assert ahead.severity is Severity.WARNING
    assert "pid 1 on host is 42 s ahead of the store's" in ahead.text
    assert "is 3 s behind the store's" in behind.text
    assert not check_skews([replace(node, info={"skew": 42.0, "skew_limit": 60.0})])
    assert check_skews([replace(node, info={"skew": 0.5, "skew_limit": 0.1})])
    assert not check_skews([replace(node, info={"skew": 1.5, "skew_limit": "nonsense"})])
    assert "NTP" in (ahead.remedy or "")


async def test_empty_store_has_no_problem() -> None:
    findings = await check_cluster(Opened(MemoryBackend(), None))
    assert {finding.severity for finding in findings} == {Severity.OK, Severity.WARNING}


def test_unready_node_is_a_problem_and_a_hung_run_a_warning() -> None:
    well = replace(LEADER, name="tenure/node/host:1:a")
    assert check_hung([well]) == []
    told = {"run": 7, "claim": 1, "task": "job", "since": ago(90).isoformat(), "stack": ""}
    hung = replace(well, info={"hung": 1, "hung_runs": [told], "ready": True})
    [warning] = check_hung([well, hung])
    assert warning.severity is Severity.WARNING
    assert "run 7 (job)" in warning.text
    assert "tenure runs show" in (warning.remedy or "")
    unready = replace(hung, pid=9, info={**hung.info, "hung": 3, "ready": False})
    problem, warning = check_hung([unready])
    assert (problem.severity, warning.severity) == (Severity.PROBLEM, Severity.WARNING)
    assert "pid 9 on host is UNREADY: 3 hung runs" in problem.text
    assert "Restart it" in (problem.remedy or "")
    assert "3 hung runs" in warning.text


async def test_doctor_looks_at_what_live_nodes_say_of_hung_runs() -> None:
    backend = MemoryBackend()
    info = {"hung": 1, "hung_runs": [], "ready": False}
    holder = Holder("host:1:a", "host", 1)
    await backend.leases.acquire("tenure/node/host:1:a", holder, 60.0, fenced=False, info=info)
    found = await check_cluster(Opened(backend, None))
    assert Severity.PROBLEM in {each.severity for each in found if each.check == "hung runs"}
