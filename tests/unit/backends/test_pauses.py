"""Between two transactions that are lent on SQLite, others who wait to write have a moment."""

from __future__ import annotations

import pytest

from tenure.backends.shared import lending
from tenure.backends.shared.lending import PAUSE, Pauses


class Time:
    now = 100.0

    def monotonic(self) -> float:
        return self.now

    def block(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(lending, "_real", time)
    return time


def waited(pauses: Pauses, time: Time) -> float:
    before = time.now
    pauses.give_way()
    return time.now - before


def test_short_ones_follow_each_other_at_once(time: Time) -> None:
    pauses = Pauses(lambda: False)
    pauses.after(PAUSE / 2)
    assert waited(pauses, time) == 0.0


def test_long_one_is_followed_by_a_pause(time: Time) -> None:
    pauses = Pauses(lambda: False)
    pauses.after(2 * PAUSE)
    assert waited(pauses, time) == pytest.approx(PAUSE, abs=0.001)
    assert waited(pauses, time) == 0.0


def test_those_who_wait_go_first_for_a_moment(time: Time) -> None:
    until = time.now + PAUSE / 3
    assert waited(Pauses(lambda: time.now < until), time) == pytest.approx(PAUSE / 3, abs=0.001)
    assert waited(Pauses(lambda: True), time) == pytest.approx(PAUSE, abs=0.001)
