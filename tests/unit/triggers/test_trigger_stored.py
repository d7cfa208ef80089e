"""Stored triggers: what is wrong is told from what only newer code knows."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from tenure.errors import InvalidTrigger, UnknownTrigger
from tenure.triggers import KNOWN, Trigger, at, cron, dump, every, load, rrule

EXAMPLES: dict[str, Trigger] = {
    "at": at("2026-01-01T07:00Z"),
    "cron": cron("0 7 * * *"),
    "every": every(seconds=5),
    "rrule": rrule("FREQ=DAILY", start="2026-01-01"),
}


def test_every_type_is_known() -> None:
    assert KNOWN == {"at": (1, 2), "cron": (1, 2), "every": (1, 2, 3, 4), "rrule": (1,)}
    assert set(EXAMPLES) == set(KNOWN)


@pytest.mark.parametrize("kind", KNOWN)
@pytest.mark.parametrize("change", [{"v": 99}, {"v": 0}, {"type": "lunar"}, {"type": ""}])
def test_type_or_version_of_newer_code_is_unknown_not_wrong(
    kind: str, change: dict[str, Any]
) -> None:
    text = json.dumps(EXAMPLES[kind].to_json() | change | {"whatever": ["it", "has"]})
    with pytest.raises(UnknownTrigger, match="is not known to this version of Tenure"):
        load(text)


@pytest.mark.parametrize("kind", KNOWN)
@pytest.mark.parametrize(
    "change",
    [
        {"v": "1"},
        {"v": True},
        {"v": None},
        {"type": 7},
        {"type": None},
        {"unheard_of": 1},
        {"tz": "Europe/Nowhere"},
        {"tz": 7},
        {"tz": ["UTC"]},
        {"end": "soon"},
        {"end": 7},
        {"jitter": -1},
        {"jitter": "5"},
        {"gap": "before"},
        {"fold": 2},
        {"except_dates": "2026-01-01"},
        {"except_dates": [7]},
        {"except_dates": {"2026-01-01": 1}},
    ],
    ids=str,
)
def test_what_is_wrong_is_invalid_not_unknown(kind: str, change: dict[str, Any]) -> None:
    text = json.dumps(EXAMPLES[kind].to_json() | change)
    with pytest.raises(InvalidTrigger, match="cannot be read") as caught:
        load(text)
    assert not isinstance(caught.value, UnknownTrigger)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "null",
        "[]",
        "{}",
        '{"type":"cron"}',
        '{"type":"cron","v":1}',
        '{"type":"cron","v":1,"expression":7}',
        '{"type":"cron","v":1,"expression":"0 0 30 2 *"}',
        '{"type":"at","v":1}',
        '{"type":"at","v":1,"time":7}',
        '{"type":"rrule","v":1,"rule":"FREQ=NEVER"}',
        '{"type":"rrule","v":1,"rule":7}',
        '{"type":"every","v":2,"months":1201}',
        '{"type":"every","v":2,"months":1,"days":1}',
    ],
)
def test_broken_text_is_invalid(text: str) -> None:
    with pytest.raises(InvalidTrigger):
        load(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "the key 'type' is missing"),
        ('{"type":"cron"}', "the key 'v' is missing"),
        ('{"type":"cron","v":1}', "the key 'expression' is missing"),
        ('{"type":7,"v":1}', "its type 7 is not text"),
    ],
)
def test_what_is_missing_is_named(text: str, said: str) -> None:
    with pytest.raises(InvalidTrigger, match=said):
        load(text)


def test_intervals_are_stored_as_older_nodes_know_them() -> None:
    """During a rolling upgrade old and new nodes read the same rows."""
    begin, end = '{"anchor":"2026-01-01T00:00:00+00:00",', ',"type":"every","v":1}'
    for middle in ('"seconds":5.0', '"days":7', '"days":1,"from_start":true'):
        assert dump(load(begin + middle + end)) == begin + middle + end
    zoned = end.replace('"every"', '"every","tz":"Europe/Berlin"')
    assert dump(load(begin + '"days":1' + zoned)) == begin + '"days":1' + zoned
    assert '"v":2' in dump(every(months=1))
    assert '"v":2' in dump(every(days=1, end="2027-01-01"))


def test_long_text_is_cut_in_the_error() -> None:
    with pytest.raises(InvalidTrigger) as caught:
        load("x" * 100_000)
    assert len(str(caught.value)) < 1_000


def test_text_as_sql_stores_it_may_be_long() -> None:
    begin = datetime(2026, 1, 1, 7)  # noqa: DTZ001
    times = [f"{(begin + timedelta(days=n)).isoformat()}+00:00" for n in range(10_000)]
    trigger = load(f"cron 0 7 * * * except_dates={','.join(times)}")
    assert trigger == cron("0 7 * * *", except_dates=times)
    assert load(dump(trigger)) == trigger


@pytest.mark.parametrize("begin", ["cron 0 7 * * * except_dates=", "{"])
def test_text_that_is_too_long_says_so(begin: str) -> None:
    with pytest.raises(InvalidTrigger, match=r"has 1,000,001 characters; at most 1,000,000"):
        load(begin.ljust(1_000_001, "x"))
