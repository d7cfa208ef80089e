"""The store's clock against the boot clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tenure.node.clock_jumps import JumpWatch

START = datetime(2026, 1, 1, tzinfo=UTC)


class Clocks:
    """Two clocks that go together until one is set."""

    def __init__(self) -> None:
        self.watch = JumpWatch(limit=60.0, hold=30.0)
        self.boot = 0.0
        self.offset = 0.0
        self.look()

    def held(self) -> bool:
        return self.watch.held

    def trusted(self, jump: float = 0.0) -> bool:
        """Would it be, if the clock had jumped since the last look?"""
        now = START + timedelta(seconds=self.boot + self.offset + jump)
        return self.watch.trusts(now, self.boot)

    def look(self, later: float = 1.0, jump: float = 0.0) -> str | None:
        self.boot += later
        self.offset += jump
        return self.watch.observe(START + timedelta(seconds=self.boot + self.offset), self.boot)


def test_clocks_that_go_together_say_nothing() -> None:
    clocks = Clocks()
    assert [clocks.look(later) for later in (1, 100, 100_000)] == [None] * 3
    assert not clocks.held()


def test_forward_jump_is_held_then_accepted_when_it_lasts() -> None:
    clocks = Clocks()
    assert clocks.look(jump=3600) == "held"
    assert clocks.held()
    assert clocks.watch.jump == pytest.approx(3600)
    assert clocks.look(29.0) is None
    assert clocks.held()
    assert clocks.look(1.0) == "accepted"
    assert not clocks.held()
    assert clocks.look() is None


def test_forward_jump_that_is_put_right_is_gone() -> None:
    clocks = Clocks()
    assert clocks.look(jump=3600) == "held"
    assert clocks.look(jump=-3600) == "gone"
    assert not clocks.held()
    assert clocks.look(jump=3600) == "held"  # and a new one is a new one


def test_second_jump_while_one_is_held_does_not_shorten_the_hold() -> None:
    clocks = Clocks()
    clocks.look(jump=100)
    assert clocks.look(20.0, jump=100) is None
    assert clocks.watch.jump == pytest.approx(200)
    assert clocks.held()
    assert clocks.look(10.0) == "accepted"


def test_backward_jump_is_told_and_not_held() -> None:
    clocks = Clocks()
    assert clocks.look(jump=-3600) == "backward"
    assert not clocks.held()
    assert clocks.look() is None


def test_small_steps_and_slow_drift_are_no_jumps() -> None:
    clocks = Clocks()
    assert {clocks.look(jump=jump) for jump in (59, 59, 59, -59, -59)} == {None}


def test_first_look_has_nothing_to_compare_with() -> None:
    watch = JumpWatch(limit=60.0, hold=30.0)
    assert watch.observe(START + timedelta(days=365), 5.0) is None
    assert not watch.held


def test_clock_is_trusted_when_it_has_gone_alike_for_as_long_as_a_jump_is_held() -> None:
    clocks = Clocks()
    assert not clocks.trusted()
    clocks.look(29.0)
    assert not clocks.trusted()
    clocks.look(1.0)
    assert clocks.trusted()
    clocks.watch.forget()
    assert not clocks.trusted()
    clocks.look()
    assert not clocks.trusted()


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_clock_is_not_trusted_after_a_jump_that_no_look_has_seen_yet(jump: float) -> None:
    clocks = Clocks()
    clocks.look(100.0)
    assert clocks.trusted()
    assert not clocks.trusted(jump)


def test_clock_is_not_trusted_while_a_jump_is_held_nor_soon_after_it() -> None:
    clocks = Clocks()
    clocks.look(100.0)
    clocks.look(jump=8 * 86_400)
    assert not clocks.trusted()
    assert clocks.look(30.0) == "accepted"
    assert not clocks.trusted()
    clocks.look(30.0)
    assert clocks.trusted()
    for jump in (3600, -3600):
        clocks.look(jump=jump)
    assert not clocks.trusted()
    clocks.look(30.0)
    assert clocks.trusted()
    clocks.look(jump=-3600)
    assert not clocks.trusted()
