"""Jitter: within its limits, evenly spread, and the same for everybody."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.errors import InvalidTrigger
from tenure.triggers import dump, every, load
from tenure.triggers.jitter import delay

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
moments = st.datetimes(datetime(1, 1, 2), timezones=st.just(UTC))  # noqa: DTZ001


@given(st.floats(0, 86_400), st.integers(0, 2**63), moments)
def test_delay_lies_within_the_jitter(jitter: float, uid: int, nominal: datetime) -> None:
    found = delay(jitter, uid, nominal)
    assert timedelta(0) <= found <= timedelta(seconds=jitter)
    assert found == delay(jitter, uid, nominal)


def test_schedules_and_occurrences_are_spread_evenly() -> None:
    tenths = [0] * 10
    for uid in range(100):
        for minute in range(100):
            seconds = delay(60, uid, NOON + timedelta(minutes=minute)).total_seconds()
            tenths[min(9, int(seconds // 6))] += 1
    assert min(tenths) > 850
    assert max(tenths) < 1150


def test_delay_is_the_same_in_every_process() -> None:
    program = (
        "from datetime import UTC, datetime\n"
        "from tenure.triggers.jitter import delay\n"
        "print(delay(60, 7, datetime(2026, 1, 1, 12, tzinfo=UTC)))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    # Stored plans rely on it: this figure may never change.
    assert said == {str(delay(60, 7, NOON))} == {"0:00:26.600601"}


def test_nominal_times_are_not_moved() -> None:
    plain, jittered = every(minutes=1, start=NOON), every(minutes=1, start=NOON, jitter=30)
    assert jittered.next(NOON) == plain.next(NOON)
    assert jittered.jitter == 30
    assert plain.delay(1, NOON) == timedelta(0)
    assert load(dump(jittered)) == jittered


@pytest.mark.parametrize("jitter", [-1, 86_401, float("nan"), float("inf"), True, "5"])
def test_wrong_jitter_is_refused(jitter: float) -> None:
    with pytest.raises(InvalidTrigger, match="jitter"):
        every(minutes=1, jitter=jitter)
