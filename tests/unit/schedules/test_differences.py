"""What an edit changes, in a line for the audit."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from tenure import every
from tenure.model import Content, Overlap, ScheduleSpec
from tenure.schedules.differences import NOTHING, difference
from tenure.triggers import cron, dump

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
HOURLY = dump(every(hours=1).anchored(BEGIN))
SPEC = ScheduleSpec("digest", HOURLY, "task", kwargs='{"password": "hunter2"}')


def test_each_difference_is_told_from_what_to_what() -> None:
    daily = dump(cron("0 7 * * *", tz="Europe/Berlin"))
    new = replace(SPEC, trigger=daily, retries=3, timeout=90.0, overlap=Overlap.QUEUE, tenant="a")
    assert difference(SPEC, new) == (
        "trigger: every hour → cron 0 7 * * * (Europe/Berlin); tenant: none → a;"
        " overlap: skip → queue; timeout: none → 90; retries: 0 → 3"
    )


def test_what_is_the_same_is_not_told() -> None:
    assert difference(SPEC, replace(SPEC, definition="another digest")) == NOTHING


def test_arguments_and_data_are_not_told() -> None:
    assert difference(SPEC, replace(SPEC, kwargs='{"password": "hunter3"}')) == "other arguments"
    event = Content("ledger", "DayEnded", '{"password": 1}', headers='{"key": "1"}')
    emits = replace(SPEC, task="", kwargs="{}", event=event)
    other = replace(event, type="MonthEnded", data='{"password": 2}', headers='{"key": "2"}')
    told = difference(emits, replace(emits, event=other))
    assert told == "type: DayEnded → MonthEnded; other data; other headers"


def test_the_lock_is_told_as_it_was_given() -> None:
    """Filled in, it may have arguments in it."""
    locked = replace(SPEC, lock="user:hunter2", lock_rule="user:{password}")
    assert difference(SPEC, locked) == "lock: none → user:{password}"


def test_same_rule_from_another_start() -> None:
    later = dump(every(hours=1).anchored(datetime(2026, 1, 1, 0, 20, tzinfo=UTC)))
    assert difference(SPEC, replace(SPEC, trigger=later)) == (
        "trigger: every hour, with another start"
    )


def test_trigger_that_cannot_be_read() -> None:
    broken = replace(SPEC, trigger="{")
    assert difference(broken, SPEC) == "trigger: unreadable → every hour"
