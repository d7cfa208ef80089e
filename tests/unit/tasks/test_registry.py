"""Policies: each option by its type and range, refused where it is given."""

from __future__ import annotations

from typing import Any

import pytest

from tenure import InvalidSchedule, Scheduler, every
from tenure.tasks.policy import Policy

MOST = 2_147_483_647
SECONDS_MOST = 3_162_240_000
WRONG: list[tuple[str, Any, str]] = [
    ("retries", "3", "retries='3' is not a whole number, such as retries=3"),
    ("retries", 1.5, "retries=1.5 is not a whole number"),
    ("retries", True, "retries=True is not a whole number"),
    ("retries", None, "retries=None is not a whole number"),
    ("retries", -1, "retries=-1 must be between 0 and 2,147,483,647"),
    ("retries", MOST + 1, "must be between 0 and 2,147,483,647"),
    ("priority", "high", "priority='high' is not a whole number"),
    ("priority", 10**23, "must be between -2,147,483,647 and 2,147,483,647"),
    ("priority", -MOST - 1, "must be between -2,147,483,647 and 2,147,483,647"),
    ("catch_up_limit", 2.5, "catch_up_limit=2.5 is not a whole number"),
    ("catch_up_limit", 1_001, "must be between 1 and 1,000; for longer stretches of the past"),
    ("timeout", "5", "timeout='5' is not a number of seconds"),
    ("timeout", True, "timeout=True is not a number of seconds"),
    ("timeout", float("nan"), "timeout=nan is not a number of seconds"),
    ("timeout", float("inf"), "timeout=inf must be greater than 0 seconds, and at most"),
    ("timeout", 0, "timeout=0 must be greater than 0 seconds, and at most 3,162,240,000"),
    ("timeout", -0.5, "timeout=-0.5 must be greater than 0 seconds"),
    ("timeout", 10**400, "must be greater than 0 seconds, and at most 3,162,240,000 (100 years)"),
    ("catch_up_grace", None, "catch_up_grace=None is not a number of seconds"),
    ("catch_up_grace", float("nan"), "catch_up_grace=nan is not a number of seconds"),
    ("catch_up_grace", float("inf"), "catch_up_grace=inf must not be negative, and at most"),
    ("catch_up_grace", 1e300, "must not be negative, and at most 3,162,240,000 (100 years)"),
    ("catch_up_grace", -1, "catch_up_grace=-1 must not be negative"),
    ("lock", "", "lock='' is not a lock key: that is a text of 1 to 500 characters"),
    ("lock", 5, "lock=5 is not a lock key"),
    ("lock", b"x", "lock=b'x' is not a lock key"),
    ("lock", "x" * 501, "is not a lock key"),
    ("lock", "a\0b", "is not a lock key"),
    ("lock", "\ud800", "is not a lock key"),
    ("lock", "schedule:1", "lock='schedule:1': keys that begin with 'schedule:' are reserved"),
    ("lock", "schedule:{user}", "keys that begin with 'schedule:' are reserved"),
    ("overlap", [], "overlap=[] is not known; choose from 'skip', 'queue', 'allow'"),
    ("catch_up", 5, "catch_up=5 is not known; choose from"),
    ("on_crash", None, "on_crash=None is not known; choose from"),
]
RIGHT: list[tuple[str, Any]] = [
    ("retries", 0),
    ("retries", MOST),
    ("priority", -MOST),
    ("priority", MOST),
    ("timeout", 0.001),
    ("timeout", SECONDS_MOST),
    ("timeout", None),
    ("catch_up_grace", 0.0),
    ("catch_up_grace", float(SECONDS_MOST)),
    ("catch_up_limit", 1_000),
    ("lock", "x" * 500),
    ("lock", "schedules:1"),
    ("lock", None),
]


@pytest.mark.parametrize(("name", "value", "says"), WRONG)
def test_wrong_option_is_refused_wherever_it_is_given(name: str, value: Any, says: str) -> None:
    scheduler = Scheduler("memory://")

    @scheduler.task
    def work() -> None: ...

    def declare() -> None:
        scheduler.task(every(hours=1), name="other", **{name: value})(lambda: None)

    try:
        scheduler.add("known", every(hours=1), task=work)
        for give in (
            declare,
            lambda: scheduler.add("a", every(hours=1), task=work, **{name: value}),
            lambda: scheduler.update("known", **{name: value}),
        ):
            with pytest.raises(InvalidSchedule) as caught:
                give()
            assert says in str(caught.value)
            assert len(str(caught.value)) < 250
        assert [(s.name, s.version) for s in scheduler.schedules()] == [("known", 1)]
    finally:
        scheduler.stop()


@pytest.mark.parametrize(("name", "value"), RIGHT)
def test_right_option_is_kept_as_it_is(name: str, value: Any) -> None:
    kept = getattr(Policy.parse("a schedule", {name: value}), name)
    assert (kept, type(kept)) == (value, type(value))
