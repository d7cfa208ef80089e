"""Excluded dates and times that fall into a gap: the rule's own local time counts."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import partial
from zoneinfo import ZoneInfo

import pytest

from tenure.errors import InvalidTrigger
from tenure.triggers import Reason, Trigger, at, cron, every, rrule
from tenure.triggers.effort import AtMost, Exhausted
from tests.unit.triggers.trigger_oracle import INSTANT

BERLIN, APIA, NUUK = "Europe/Berlin", "Pacific/Apia", "America/Nuuk"
SKIPPED = ["2026-03-29T02:30"]
GAP = datetime(2026, 3, 29, 1, tzinfo=UTC)
DATE_LINE = datetime(2011, 12, 30, 10, tzinfo=UTC)
SUNDAY = datetime(2024, 3, 31, 1, tzinfo=UTC)
LINES = """
DTSTART;TZID=Europe/Berlin:20260301T023000
RRULE:FREQ=DAILY
EXDATE;TZID=Europe/Berlin:20260329T023000
"""


@pytest.mark.parametrize(
    ("trigger", "moment"),
    [
        (cron("30 2 * * *", tz=BERLIN, except_dates=SKIPPED), GAP),
        (every(days=1, start="2026-03-01T02:30", tz=BERLIN, except_dates=SKIPPED), GAP),
        (rrule(LINES), GAP),
        (cron("0,30 2 * * *", tz=BERLIN, except_dates=[*SKIPPED, "2026-03-29T02:00"]), GAP),
        (cron("0 12 * * *", tz=APIA, except_dates=["2011-12-30"]), DATE_LINE),
        (every(days=1, start="2011-12-01T12:00", tz=APIA, except_dates=["2011-12-30"]), DATE_LINE),
        (cron("30 23 * * SAT", tz=NUUK, except_dates=["2024-03-30"]), SUNDAY),
        # As the clocks show it, it is left out too.
        (cron("30 2 * * *", tz=BERLIN, except_dates=["2026-03-29T03:00"]), GAP),
        (cron("30 23 * * SAT", tz=NUUK, except_dates=["2024-03-31"]), SUNDAY),
    ],
    ids=str,
)
def test_excluded_time_in_a_gap_does_not_occur_after_it(trigger: Trigger, moment: datetime) -> None:
    following, before = trigger.next(moment - INSTANT), trigger.latest(moment)
    assert following is not None
    assert before is not None
    assert before < moment < following
    told = trigger.explain(moment)
    assert (told.occurs, told.reason) == (False, Reason.EXCLUDED)
    (shown,) = trigger.preview(1, moment - INSTANT)
    assert shown.moment == following
    assert [left_out.reason for left_out in shown.left_out] == [Reason.EXCLUDED]


@pytest.mark.parametrize(
    "trigger",
    [
        cron("0,30 2 * * *", tz=BERLIN, except_dates=SKIPPED),  # 02:00 is left
        cron("30 2,3 * * *", tz=BERLIN, except_dates=["2026-03-29T03:30"]),
        cron("0,30 2,3 * * *", tz=BERLIN, except_dates=[*SKIPPED, "2026-03-29T02:00"]),
    ],
    ids=str,
)
def test_what_is_not_excluded_still_occurs_after_the_gap(trigger: Trigger) -> None:
    assert trigger.next(GAP - INSTANT) == trigger.latest(GAP) == GAP
    assert trigger.explain(GAP).occurs


def test_once_at_an_excluded_time_is_refused() -> None:
    with pytest.raises(InvalidTrigger, match="all its times are in except_dates"):
        at("2026-03-29T02:30", tz=BERLIN, except_dates=SKIPPED)


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "make",
    [
        partial(cron, "30 9,21 * * *"),
        partial(every, hours=7, start="2026-01-01T01:00"),
        partial(every, months=2, start="2026-01-31T12:00"),
        partial(rrule, "FREQ=DAILY;INTERVAL=11;BYMONTHDAY=1,15", start="2026-01-01T12:00"),
        partial(rrule, "FREQ=WEEKLY;BYMONTH=12;BYDAY=TH", start="2026-01-01T12:00"),
    ],
    ids=["cron", "hours", "months", "days", "weeks"],
)
def test_order_of_questions_does_not_matter(
    make: Callable[..., Trigger], seed: int, few: bool
) -> None:
    """Stretches of excluded times are remembered when they are met, from whatever side."""
    chance, begin = random.Random(seed), datetime(2025, 12, 31, tzinfo=UTC)
    plain, times = make(tz=BERLIN), [begin]
    while len(times) < 200:
        found = plain.next(times[-1])
        assert found is not None
        times.append(found)
    local = {moment: moment.astimezone(ZoneInfo(BERLIN)).replace(tzinfo=None) for moment in times}
    excluded = set[date]()
    while len(excluded) < (20 if few else 100):
        first = chance.randrange(1, 180)
        some = [local[moment] for moment in times[first : first + chance.randint(1, 15)]]
        excluded.update(t.date() if chance.random() < 0.3 else t for t in some)
    trigger = make(tz=BERLIN, except_dates=excluded)
    kept = [t for t in times[1:] if not excluded & {local[t], local[t].date()}]
    for _ in range(300):
        moment = chance.choice(times) - chance.choice([0, 1]) * INSTANT
        later, earlier = [t for t in kept if t > moment], [t for t in kept if t <= moment]
        with suppress(Exhausted), AtMost(chance.randrange(60)):  # cut short anywhere
            trigger.next(moment)
            trigger.latest(moment)
        if later:
            assert trigger.next(moment) == later[0]
        if earlier:
            assert trigger.latest(moment) == earlier[-1]
