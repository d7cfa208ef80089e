"""Planning rows that did not come from this code: put there by SQL, or edited by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenure.model import DueSchedule, Firing
from tenure.schedules.planning import plan
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


def test_row_that_cannot_be_read_is_set_aside_whatever_else_is_in_it() -> None:
    """Put off it cannot be: the store would have to know where its plan stands."""
    beyond = due(trigger="next_nominal='infinity'", overlap="perhaps", catch_up="sometimes")
    [fault] = plan([beyond], NOW).faults
    assert (fault.until, fault.reason[:11]) == (None, "set aside: ")
    assert "next_nominal='infinity'" in fault.reason


def test_arguments_beyond_the_limit_are_set_aside_and_not_fired() -> None:
    large, fits = due("large", uid=1, payload=1_001), due("fits", payload=1_000)
    planned = plan([large, fits], NOW, payload_limit=1_000)
    [fault] = planned.faults
    assert (fault.uid, fault.version, fault.until) == (1, 3, None)
    assert fault.reason.startswith(
        "set aside: the keyword arguments are 1,001 bytes of JSON; the limit is 1,000. Store the"
    )
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


def test_lock_key_that_no_index_takes_is_set_aside_and_the_others_fire() -> None:
    long, fits = due("long", uid=1, lock="k" * 501), due("fits", lock="k" * 500)
    planned = plan([long, fits], NOW)
    [fault] = planned.faults
    assert (fault.uid, fault.until) == (1, None)
    assert "set aside: its lock key has 501 characters" in fault.reason
    assert [firing.uid for firing in planned.firings] == [fits.uid]


def test_target_that_only_newer_code_knows_is_put_off_and_told() -> None:
    """Beside one with the same trigger, whose plan must not be taken for it."""
    planned = plan([due("known"), due("newer", uid=8, target="signal")], NOW)
    assert [firing.uid for firing in planned.firings] == [7]
    [fault] = planned.faults
    assert (fault.uid, fault.expected) == (8, NOW)
    assert fault.until is not None
    assert fault.reason == "put off: its target 'signal' is not known to this version of Tenure"
    assert planned.unknown == {"signal"}
