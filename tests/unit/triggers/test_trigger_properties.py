"""What holds for every trigger with any options, above all where the clocks change."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.errors import InvalidTrigger
from tenure.triggers import Trigger, at, cron, dump, every, load, rrule
from tenure.triggers.interval import Unit
from tests.unit.triggers.trigger_oracle import CHANGES, INSTANT, ZONES, first, last

FIXED = ["30 2 * * *", "0,30 0-3 * * *", "15 1 * * SUN", "0 0 1 * *", "59 23 L * *"]
WILD = ["*/30 * * * *", "10 * * * SAT,SUN", "0 */6 * * *", "30 */7 2 * * *"]
RULES = ["FREQ=DAILY;BYHOUR=1,2", "FREQ=HOURLY;INTERVAL=5", "FREQ=MONTHLY;BYDAY=-1SU"]
units: st.SearchStrategy[Unit] = st.sampled_from(["days", "weeks", "months", "years"])


@st.composite
def options(draw: st.DrawFn, zone: str, change: datetime, *, local: bool = True) -> dict[str, Any]:
    """Some of the options, such that they matter around the change."""
    given: dict[str, Any] = {"tz": zone}
    day = change.date()
    if draw(st.booleans()):
        given["end"] = change + timedelta(hours=draw(st.integers(-60, 400)))
    if draw(st.booleans()):
        days = draw(st.lists(st.integers(-2, 3), min_size=1, max_size=3))
        given["except_dates"] = [day + timedelta(days=n) for n in days]
    if draw(st.booleans()):
        given["jitter"] = draw(st.integers(1, 60))
    if local and draw(st.booleans()):
        given["gap"] = draw(st.sampled_from(["after", "skip"]))
    if local and draw(st.booleans()):
        given["fold"] = draw(st.sampled_from(["first", "second", "both"]))
    return given


@st.composite
def cases(draw: st.DrawFn) -> tuple[Trigger, datetime]:
    """A trigger, and a moment near a change of its clocks."""
    zone, change = draw(st.sampled_from(CHANGES))
    quarter = timedelta(minutes=15)
    start = change - timedelta(days=draw(st.integers(0, 3))) + draw(st.integers(-8, 8)) * quarter
    moment = (
        change + draw(st.integers(-150, 150)) * quarter + draw(st.sampled_from([0, 1])) * INSTANT
    )
    kind = draw(st.sampled_from(["fixed", "wild", "calendar", "clock", "at", "rrule"]))
    given = draw(options(zone, change, local=kind != "clock"))
    try:
        return _made(draw, kind, start, given), moment
    except InvalidTrigger:  # the options leave nothing of it
        return cron("30 2 * * *", tz=zone), moment


def _made(draw: st.DrawFn, kind: str, start: datetime, given: dict[str, Any]) -> Trigger:
    if kind in ("fixed", "wild"):
        expression = draw(st.sampled_from(FIXED if kind == "fixed" else WILD))
        return cron(expression, start=draw(st.sampled_from([None, start])), **given)
    if kind == "calendar":
        count = draw(st.integers(1, 3))
        if draw(st.booleans()):
            return every(unit=draw(units), count=count, start=start, **given)
        return every(unit=draw(units), count=count, **given).anchored(start)
    if kind == "clock":
        return every(minutes=draw(st.integers(7, 600)), start=start, **given)
    if kind == "at":
        local = draw(st.booleans())
        return at(start.replace(tzinfo=None) if local else start, **given)
    return rrule(draw(st.sampled_from(RULES)), start=start, **given)


@given(cases())
def test_times_strictly_grow(case: tuple[Trigger, datetime]) -> None:
    trigger, after = case
    times = [after, *first(trigger, after, 6)]
    assert all(earlier < later for earlier, later in pairwise(times))
    assert all(time.tzinfo is UTC for time in times[1:])


@given(cases())
def test_latest_is_the_inverse_of_next(case: tuple[Trigger, datetime]) -> None:
    trigger, moment = case
    following, latest = trigger.next(moment), trigger.latest(moment)
    if following is not None:
        assert trigger.latest(following) == following
        assert trigger.latest(following - INSTANT) == latest
    if latest is not None:
        assert latest <= moment
        assert trigger.next(latest) == following
        assert trigger.next(latest - INSTANT) == latest


@given(cases(), st.floats(0, 1))
def test_times_are_the_same_from_wherever_one_starts(
    case: tuple[Trigger, datetime], part: float
) -> None:
    trigger, after = case
    times = first(trigger, after, 8)
    if not times:
        return
    between = after + (times[-1] - after) * part
    expected = [time for time in times if time > between]
    assert first(trigger, between, len(expected)) == expected
    assert last(trigger, times[-1], len(times)) == times[::-1]


@given(cases())
def test_stored_trigger_is_the_same(case: tuple[Trigger, datetime]) -> None:
    trigger, moment = case
    stored = load(dump(trigger))
    assert stored == trigger
    assert dump(stored) == dump(trigger)
    assert first(stored, moment, 3) == first(trigger, moment, 3)
    assert trigger.anchored(moment) == trigger.zoned(None)


@given(cases())
@settings(max_examples=60)
def test_explanations_agree_with_the_times(case: tuple[Trigger, datetime]) -> None:
    trigger, moment = case
    told = trigger.explain(moment)
    assert told.moment == told.local.astimezone(UTC) == moment
    assert told.occurs == (trigger.latest(moment) == moment)
    assert (told.previous, told.following) == (
        trigger.latest(moment - INSTANT),
        trigger.next(moment),
    )
    shown = trigger.preview(4, moment, uid=7)
    assert [told.moment for told in shown] == first(trigger, moment, 4)
    for told in shown:
        assert told.occurs
        assert told.due == told.moment + trigger.delay(7, told.moment)
        assert all(not left_out.occurs for left_out in told.left_out)
        assert all(moment < left_out.moment < told.moment for left_out in told.left_out)


@given(cases(), st.sampled_from(ZONES))
def test_zone_of_the_question_does_not_matter(case: tuple[Trigger, datetime], zone: str) -> None:
    trigger, moment = case
    elsewhere = moment.astimezone(ZoneInfo(zone))
    assert trigger.next(elsewhere) == trigger.next(moment)
    assert trigger.latest(elsewhere) == trigger.latest(moment)
    assert trigger.explain(elsewhere).occurs == trigger.explain(moment).occurs


@given(cases())
def test_options_only_take_away(case: tuple[Trigger, datetime]) -> None:
    """What is left are the times of the plain rule that the options allow."""
    trigger, moment = case
    data = trigger.to_json()
    excluded = {date.fromisoformat(day) for day in data.pop("except_dates", [])}
    end = data.pop("end", None)
    data.pop("jitter", None)
    data["v"] = data["v"] if data["type"] != "every" else 2
    plain = load(json.dumps(data))
    zone = trigger.explain(moment).local.tzinfo

    def days_of(time: datetime) -> set[date]:
        """Its own, and that of the local time for which it stands if it is just after a gap."""
        local = time.astimezone(zone)
        shown = (time - INSTANT).astimezone(zone).replace(tzinfo=None) + INSTANT
        moved = shown < local.replace(tzinfo=None) and not occurs_at(local)
        return {local.date(), shown.date()} if moved else {local.date()}

    def occurs_at(local: datetime) -> bool:
        if data["type"] == "every" and "seconds" in data:
            return True
        exact = load(json.dumps(data | {"gap": "skip"}))
        return exact.latest(local) == local

    allowed = [
        time
        for time in first(plain, moment, 200)
        if excluded.isdisjoint(days_of(time))
        and (end is None or time <= datetime.fromisoformat(end))
    ]
    expected = allowed[:5]
    assert first(trigger, moment, len(expected)) == expected
