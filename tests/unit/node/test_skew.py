"""Clock skew: measured against the store, told, and known to others."""

from __future__ import annotations

from datetime import datetime, timedelta

from tenure.facts import ClockSkew, ClockSkewed, Fact
from tenure.node.service import Surroundings
from tenure.node.skew import LOOK_EVERY, SkewWatch
from tenure.testing import FakeClock
from tests.unit.node.services import SETTINGS, listening


class World:
    """A node whose clock is ahead of the store's by `ahead` seconds; an answer takes `takes`."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.ahead = self.takes = 0.0
        self.noted: list[float] = []
        facts, self.told = listening()
        self.watch = SkewWatch(
            self._now, self.noted.append, Surroundings(self.clock, facts, SETTINGS)
        )

    async def _now(self) -> datetime:
        self.clock.advance(self.takes / 2)
        store = self.clock.now() - timedelta(seconds=self.ahead)
        self.clock.advance(self.takes / 2)
        return store

    async def look(self) -> list[Fact]:
        self.told.clear()
        assert await self.watch.step() == LOOK_EVERY
        return list(self.told)


async def test_each_look_tells_the_figure() -> None:
    world = World()
    assert await world.look() == [ClockSkew(0.0, within=0.0)]
    world.ahead, world.takes = -1.5, 0.2
    assert await world.look() == [ClockSkew(-1.5, within=0.1)]


async def test_more_than_the_limit_is_a_warning_once_until_the_clocks_agree_again() -> None:
    world = World()
    world.ahead = 30.0
    assert await world.look() == [ClockSkew(30.0, within=0.0), ClockSkewed(30.0, 2.0)]
    assert ClockSkewed.level > ClockSkew.level
    assert await world.look() == [ClockSkew(30.0, within=0.0)]
    world.ahead = 0.0
    await world.look()
    world.ahead = -30.0
    assert await world.look() == [ClockSkew(-30.0, within=0.0), ClockSkewed(-30.0, 2.0)]


async def test_slow_answer_is_not_taken_for_a_wrong_clock() -> None:
    world = World()
    world.ahead, world.takes = 2.1, 1.0
    assert await world.look() == [ClockSkew(2.1, within=0.5)]
    assert world.noted == [2.1]


async def test_others_hear_of_it_if_it_changes_noticeably() -> None:
    world = World()
    for ahead in (0.0, 0.01, 0.2, 0.22, 5.0, 5.01, 0.0):
        world.ahead = ahead
        await world.look()
    assert world.noted == [0.2, 5.0, 0.0]
