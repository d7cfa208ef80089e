"""`at(…, keep=False)`: the schedule is removed when it fires, and its history stays."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from tenure import Scheduler
from tenure.errors import InvalidTrigger
from tenure.model import DueSchedule, RunState
from tenure.schedules.planning import plan
from tenure.testing import testing
from tenure.triggers import at, dump, load, parse

TIME = "2030-12-31T18:00"


def test_it_is_stored_and_shown_as_what_it_is() -> None:
    trigger = at(TIME, keep=False)
    assert json.loads(dump(trigger)) == {"type": "at", "v": 2, "keep": False, "time": f"{TIME}:00"}
    assert load(dump(trigger)) == trigger != at(TIME)
    assert parse(f"at {TIME} keep=no") == trigger
    assert parse(f"at {TIME} keep=yes") == at(TIME)
    assert str(trigger) == "at Tue 2030-12-31 18:00 (UTC), keep=no"
    assert json.loads(dump(at(TIME, keep=True)))["v"] == 1  # older nodes can read it


def test_what_is_wrong_is_refused() -> None:
    with pytest.raises(InvalidTrigger, match="keep= belongs to at"):
        parse("every 5m keep=no")
    with pytest.raises(InvalidTrigger, match="write yes or no"):
        parse(f"at {TIME} keep=perhaps")
    with pytest.raises(InvalidTrigger, match="not true or false"):
        load('{"type":"at","v":2,"keep":0,"time":"2030-12-31T18:00"}')


def test_it_is_gone_when_it_has_fired_and_its_run_stays() -> None:
    scheduler = Scheduler("memory://")

    @scheduler.task(retries=1)
    def once() -> None:
        if world.ran("once") == 1:
            raise ValueError("try again")

    with testing(scheduler) as world:
        soon = world.now + timedelta(minutes=1)
        for name, keep in (("kept", True), ("gone", False)):
            scheduler.add(name, at(soon, keep=keep), task=once)
        world.advance(seconds=59)
        assert sorted(s.name for s in scheduler.schedules()) == ["gone", "kept"]
        world.advance(minutes=5)
        assert [s.name for s in scheduler.schedules()] == ["kept"]
        [run] = scheduler.runs("gone")
        assert (run.state, run.nominal) == (RunState.SUCCEEDED, soon)
        scheduler.add("gone", at(world.now + timedelta(hours=1), keep=False), task=once)


def test_one_that_code_declares_fires_once_however_often_its_program_starts() -> None:
    scheduler = Scheduler("memory://")
    moment = datetime(2030, 12, 31, 18, tzinfo=UTC)

    @scheduler.task(at(moment, keep=False))
    def party() -> None: ...

    with testing(scheduler, start=moment - timedelta(hours=1)) as world:
        world.advance(hours=2)
        assert world.ran("party") == 1
        assert scheduler.schedules() == []
        world.node("a").kill()
        world.node("a").revive()
        world.advance(hours=2)
        assert world.ran("party") == 1


@pytest.mark.parametrize("keep", [True, False])
def test_one_that_sql_added_as_text_is_put_away_when_it_fires(keep: bool) -> None:
    """Its first plan only reads the text. Nothing has fired then, even if the time has passed."""
    moment, text = (
        datetime(2030, 12, 31, 18, tzinfo=UTC),
        f"at {TIME} keep={'yes' if keep else 'no'}",
    )
    before = moment - timedelta(hours=1)
    new = DueSchedule(1, "a", 1, text, None, before, "latest", "skip", None)
    [first] = plan([new], before).firings
    assert (first.next_nominal, first.put_away) == (moment, False)
    assert first.trigger is not None
    due = new._replace(trigger=first.trigger, next_nominal=moment, next_due=moment)
    for catch_up in ("latest", "none"):  # on time and late: fired, or missed
        for minutes in (0, 60):
            late = moment + timedelta(minutes=minutes)
            [last] = plan([due._replace(catch_up=catch_up)], late).firings
            assert (last.next_nominal, last.put_away) == (None, not keep)
    [passed] = plan([new._replace(next_due=moment)], moment).firings
    assert (passed.next_nominal, passed.put_away) == (None, False)
