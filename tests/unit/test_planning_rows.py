"""Planning rows that did not come from this code: put there by SQL, or edited by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenure.model import DueSchedule, Firing
from tenure.planning import plan
from tenure.triggers import dump, every, load

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOURLY = dump(every(hours=1).anchored(NOW - timedelta(hours=5)))


def due(name: str = "a", **changes: Any) -> DueSchedule:
    given: dict[str, Any] = {
        "uid": 7,
        "name": name,
        "version": 3,
        "trigger": HOURLY,
        "next_nominal": NOW,
        "next_due": NOW,
        "catch_up": "latest",
        "overlap": "skip",
        "lock": f"lock of {name}",
    }
    return DueSchedule(**given | changes)


@pytest.mark.parametrize("trigger", ["every 10m", '{"type":"every","v":1,"seconds":600}'])
def test_schedule_of_sql_is_planned_from_when_it_came(trigger: str) -> None:
    came = NOW - timedelta(minutes=35)
    [firing] = plan([due(trigger=trigger, next_nominal=None, next_due=came)], NOW).firings
    put_off = due(trigger=trigger, next_nominal=None, next_due=NOW, begins=came)
    assert plan([put_off], NOW).firings == [firing]  # not from when it was looked at again
    assert (firing.expected, firing.occurrences, firing.missed) == (None, (), None)
    assert firing.next_nominal == firing.next_due == came + timedelta(minutes=10)
    # What it has missed since is the next plan's: it is late like any other.
    assert firing.trigger is not None
    assert load(firing.trigger).latest(NOW) == came + timedelta(minutes=30)
    again = due(trigger=firing.trigger, next_nominal=firing.next_nominal, next_due=firing.next_due)
    [second] = plan([again], NOW).firings
    assert [nominal for nominal, _ in second.occurrences] == [came + timedelta(minutes=30)]
    assert second.missed is not None
    assert second.missed.first == came + timedelta(minutes=10)


@pytest.mark.parametrize(
    "changes",
    [
        {"trigger": "every 5 parsecs"},
        {"trigger": "nonsense", "next_nominal": None},
        {"trigger": "{"},
        {"trigger": None},
        {"catch_up": "all", "catch_up_limit": "many", "next_nominal": NOW - timedelta(hours=9)},
        {"next_nominal": "yesterday"},
    ],
)
def test_row_that_cannot_be_planned_is_set_aside_alone(changes: dict[str, Any]) -> None:
    planned = plan([due("bad", uid=1, **changes), due("good")], NOW)
    [fault] = planned.faults
    assert (fault.uid, fault.version, fault.until) == (1, 3, None)
    assert fault.reason.startswith("set aside: ")
    assert [firing.uid for firing in planned.firings] == [7]


@pytest.mark.parametrize("changes", [{"catch_up": "sometimes"}, {"overlap": "perhaps"}])
def test_policy_that_only_newer_code_may_know_is_put_off(changes: dict[str, Any]) -> None:
    planned = plan([due("bad", uid=1, **changes), due("good")], NOW)
    [fault] = planned.faults
    assert fault.until is not None
    assert fault.until > NOW
    assert "is not known to this version" in fault.reason
    firing: Firing
    [firing] = planned.firings
    assert firing.uid == 7
