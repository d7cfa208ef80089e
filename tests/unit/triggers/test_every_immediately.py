"""`every(…, immediately=True)`: the first occurrence is the creation, and only that one's."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from tenure import Scheduler
from tenure.errors import InvalidTrigger
from tenure.testing import testing
from tenure.triggers import dump, every, load, parse
from tests.unit.triggers.trigger_oracle import first, last

NOW = datetime(2026, 1, 1, 7, 0, 0, 123456, tzinfo=UTC)


@pytest.mark.parametrize("now", [NOW, NOW.replace(microsecond=0)])
@pytest.mark.parametrize("units", [{"minutes": 5}, {"days": 1}, {"months": 1}])
def test_the_first_is_at_once_and_the_others_follow(now: datetime, units: dict[str, int]) -> None:
    trigger = every(**units, immediately=True, tz="Europe/Berlin").anchored(now)  # type: ignore[arg-type]
    times = first(trigger, now, 3)
    assert now < times[0] <= now + timedelta(milliseconds=1)
    assert times == first(every(**units, start=times[0], tz="Europe/Berlin"), now, 3)  # type: ignore[arg-type]
    assert last(trigger, times[-1], 5)[::-1] == times
    assert load(dump(trigger)) == trigger


def test_before_it_is_anchored_it_is_stored_and_shown_as_what_it_is() -> None:
    trigger = every(minutes=5, immediately=True)
    assert json.loads(dump(trigger)) == {
        "type": "every",
        "v": 4,
        "seconds": 300.0,
        "from_start": True,
    }
    assert load(dump(trigger)) == trigger
    assert parse("every 5m immediately=yes") == trigger
    assert parse("every 5m immediately=no") == every(minutes=5)
    assert str(trigger) == "every 5 minutes immediately"
    assert trigger.preview(1, NOW)[0].moment == NOW.replace(microsecond=124000)


def test_what_contradicts_it_is_refused() -> None:
    with pytest.raises(InvalidTrigger, match="both say when to begin"):
        every(minutes=5, start="2026-01-01", immediately=True)
    with pytest.raises(InvalidTrigger, match="immediately= belongs to every"):
        parse("0 7 * * * immediately=yes")
    with pytest.raises(InvalidTrigger, match="write yes or no"):
        parse("every 5m immediately=perhaps")


def test_a_schedule_that_exists_does_not_begin_again() -> None:
    scheduler = Scheduler("memory://")

    @scheduler.task
    def refresh() -> None: ...

    with testing(scheduler) as world:
        for _ in range(2):  # as a program does at every start
            scheduler.put("refresh", every(hours=1, immediately=True), task=refresh)
            world.advance(minutes=10)
            assert world.ran("refresh") == 1
        world.advance(hours=1)
        assert world.ran("refresh") == 2


def test_one_that_is_declared_runs_when_it_is_first_deployed() -> None:
    scheduler = Scheduler("memory://")

    @scheduler.task(every(hours=1, immediately=True))
    def refresh() -> None: ...

    with testing(scheduler) as world:
        world.advance(minutes=1)
        assert world.ran("refresh") == 1
