"""Every kind of trigger against brute force: the same ones each time; `scripts/torture times` has
others, in all zones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import partial

import pytest

from tenure.triggers import Trigger, cron, every, rrule
from tenure.triggers.options import Fold, Gap
from tests.faults.torture.__main__ import main as torture
from tests.unit.triggers.brute_force import Rule, cron_matches, every_matches
from tests.unit.triggers.brute_force_rrule import rrule_matches
from tests.unit.triggers.random_triggers import Case, Cases, changes, check_days

ZONES = {
    "Europe/Berlin": 2026,
    "America/New_York": 2026,
    "America/Santiago": 2026,  # at midnight, both ways
    "Africa/Cairo": 2026,
    "America/Nuuk": 2026,  # the last hour of a Saturday
    "Asia/Beirut": 2026,
    "Australia/Lord_Howe": 2026,  # half an hour
    "Africa/Casablanca": 2026,
    "Pacific/Apia": 2011,  # a whole day
    "America/Sao_Paulo": 2017,
}


@pytest.mark.parametrize("zone", ZONES)
def test_triggers_are_as_brute_force_says(zone: str) -> None:
    found = changes(zone, ZONES[zone], ZONES[zone])
    assert len(found) >= 2
    looked_at = [Cases(zone, change, seed).case().check() for change in found for seed in range(8)]
    assert sum(map(bool, looked_at)) > len(looked_at) / 2, "most of them occur"


BERLIN, SANTIAGO = "Europe/Berlin", "America/Santiago"
SKIPPED, TWICE = datetime(2026, 3, 29, 2, 30), datetime(2026, 10, 25, 2, 30)  # noqa: DTZ001
SECOND, SATURDAY = TWICE.replace(fold=1), date(2026, 4, 4)
MINUTES = "*/15 * * * *"
POLICIES: list[tuple[Gap, Fold]] = [("after", "first"), ("after", "second"), ("skip", "both")]
EDGES: dict[str, tuple[Callable[[], Trigger], Rule]] = {
    **{
        f"every {start:%B} {gap} {fold}": (
            partial(every, days=1, start=start, tz=BERLIN, gap=gap, fold=fold),
            Rule(BERLIN, every_matches(start, 1, 0), gap, fold, start),
        )
        for start in (SKIPPED, TWICE)
        for gap, fold in POLICIES
    },
    "rrule": (
        partial(rrule, "FREQ=DAILY", start=SKIPPED, tz=BERLIN),
        Rule(BERLIN, rrule_matches("FREQ=DAILY", SKIPPED), "after", "first", SKIPPED),
    ),
    "end of a day": (
        partial(cron, MINUTES, end=SATURDAY, tz=SANTIAGO),
        Rule(SANTIAGO, cron_matches(MINUTES), "skip", "both", end=SATURDAY),
    ),
    "start in the second pass": (
        partial(cron, MINUTES, start=SECOND, tz=BERLIN, jitter=60),
        Rule(BERLIN, cron_matches(MINUTES), "skip", "both", start=SECOND),
    ),
    "end in the second pass": (
        partial(cron, MINUTES, end=SECOND, tz=BERLIN, jitter=60),
        Rule(BERLIN, cron_matches(MINUTES), "skip", "both", end=SECOND),
    ),
}


@pytest.mark.parametrize(("make", "rule"), EDGES.values(), ids=EDGES)
def test_bounds_at_a_change_are_as_brute_force_says(
    make: Callable[[], Trigger], rule: Rule
) -> None:
    bound, three = rule.start or rule.end, timedelta(days=3)
    (change,) = (
        moment for moment in changes(rule.zone, 2026, 2026) if f"{moment:%Y-%m}" == f"{bound:%Y-%m}"
    )
    assert Case(f"{rule}", make, rule, change - three, change + three).check()


@pytest.mark.parametrize("seed", range(40))
def test_days_of_rules_are_as_brute_force_says(seed: int) -> None:
    check_days(seed)


def test_brute_force_finds_what_is_wrong() -> None:
    """An oracle that agrees with everything would be of no use."""
    (change,) = changes("Europe/Berlin", 2026, 2026)[:1]
    rule = Rule("Europe/Berlin", cron_matches("30 2 * * *"), "after", "first")
    begin, end = change - timedelta(days=3), change + timedelta(days=3)
    local = [f"{t:%d %H:%M}" for t in rule.occurrences(begin, end)]
    assert local[:4] == ["26 01:30", "27 01:30", "28 01:30", "29 01:00"]
    assert local[4:] == ["30 00:30", "31 00:30", "01 00:30"]
    wrong = cron("30 2 * * *", tz="Europe/Berlin", gap="skip")
    with pytest.raises(AssertionError):
        Case("wrong", lambda: wrong, rule, begin, end).check()
    rule.excluded = [datetime(2026, 3, 29, 2, 30)]  # noqa: DTZ001
    assert Case("right", lambda: wrong, rule, begin, end).check()


def test_torture_says_what_it_compared(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        torture(["times", "0", "--seed", "1", "--zone", "Asia/Gaza", "--years", "2026", "2026"])
        == 0
    )
    shown = capsys.readouterr()
    assert shown.err == "seed 1\n"
    rows = {line[:34].strip(): line[34:].strip() for line in shown.out.splitlines()}
    assert rows["zones with clocks of their own"] == "1 of 1"
    assert rows["differences"] == "0"
    assert int(rows["minutes compared"].replace(",", "")) > 10_000


def test_torture_says_what_differs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rule, "occurrences", lambda *_: [datetime(1999, 1, 1, tzinfo=UTC)])
    assert torture(["times", "0", "--seed", "1", "--zone", "Europe/Berlin"]) == 1
    assert "DIFFERENT 20" in capsys.readouterr().err
