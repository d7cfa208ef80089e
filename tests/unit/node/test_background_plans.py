"""Plans that are worked out beside the loop: what they are worth later, who has a turn, and a
thread that fails."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tenure.facts import SchedulePutOff, ServiceFailed, StoreRecovered
from tenure.model import CatchUp, Schedule
from tenure.node import background
from tenure.node.background import Background
from tests.unit.node.test_ticker_background import Leader, dear
from tests.unit.node.ticking import FENCE

HOUR = 3600.0


class Busy(Leader):
    """Each plan of its schedules takes long."""

    async def add(self, name: str, seconds: float = 10.0, **options: Any) -> Schedule:
        schedule = await super().add(name, seconds, **options)
        self.beside._dear.add(schedule.uid)
        return schedule

    @property
    def beside(self) -> Background:
        assert self.ticker._background is not None
        return self.ticker._background


@pytest.fixture
async def leader(monkeypatch: pytest.MonkeyPatch) -> Busy:
    monkeypatch.setattr(background, "ON_THE_LOOP", -1)
    leader = Busy()
    assert await leader.backend.office.take(FENCE) == FENCE
    await leader.ticker.step()
    return leader


class Slow:
    """A thread that takes so long for each, by the clock of the test."""

    def __init__(self, leader: Busy, seconds: float) -> None:
        self._leader = leader
        self.seconds = seconds
        self.begun = list[str]()
        leader.beside._off_loop = self.call

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        self.begun.append(args[0].name)
        await self._leader.clock.sleep(self.seconds)
        return function(*args)


async def run(leader: Busy, seconds: int, step: float = 1.0) -> None:
    """Let the time pass; the ticker looks when it is woken, and now and then."""
    for _ in range(int(seconds / step)):
        leader.clock.advance(step)
        await leader.clock.settle(3)
        leader.ticker._awake.clear()
        await leader.ticker.step()
        await leader.clock.settle(3)


# -- what a plan is worth when it is there --------------------------------------------------------


@pytest.mark.parametrize("seconds", [59.0, 61.0], ids=["in time", "too late"])
async def test_plan_that_is_there_after_the_grace_fires_nothing(
    leader: Busy, seconds: float
) -> None:
    await leader.add("a", HOUR, catch_up=CatchUp.NONE, catch_up_grace=60.0)
    leader.clock.advance(HOUR)
    await leader.ticker.step()
    leader.clock.advance(seconds)
    await leader.settle()
    await leader.ticker.step()
    assert await leader.states() == ["fired" if seconds < 60 else "missed"]
    [occurrence] = await leader.backend.schedules.occurrences("a")
    if seconds > 60:
        assert occurrence.reason == "catch_up=none: later than catch_up_grace=60 s"


async def test_what_lay_in_the_queue_is_planned_for_when_its_turn_comes(leader: Busy) -> None:
    added = await leader.add("latest", 60.0)
    await leader.add("first", HOUR)
    await leader.add("none", HOUR, catch_up=CatchUp.NONE, catch_up_grace=60.0)
    leader.clock.advance(HOUR)
    await leader.ticker.step()
    await leader.clock.settle()
    assert leader.thread.begun == ["latest"]  # and the others wait
    leader.clock.advance(250.0)
    await leader.settle()
    await leader.ticker.step()
    assert await leader.states("none") == ["missed"]
    assert await leader.states("first") == ["fired"]
    await leader.settle()
    await leader.ticker.step()
    assert leader.thread.begun == ["latest", "first", "none", "latest"]
    [nominal] = await leader.fired("latest")
    assert nominal == added.created_at + timedelta(seconds=HOUR + 240.0)
    [skipped] = [
        o for o in await leader.backend.schedules.occurrences("latest") if o.last < nominal
    ]
    assert skipped.last == nominal - timedelta(seconds=60.0)


@pytest.mark.parametrize("catch_up", list(CatchUp))
async def test_plan_that_takes_longer_than_the_period_is_fired_all_the_same(
    leader: Busy, catch_up: CatchUp
) -> None:
    """It never is there in time: it is planned once again, and not for ever."""
    thread = Slow(leader, seconds=25.0)
    await leader.add("a", 10.0, catch_up=catch_up, catch_up_grace=60.0)
    await run(leader, 300)
    assert 4 <= len(thread.begun) <= 13
    fired = await leader.fired()
    assert len(fired) >= 4
    covered = Counter[Any]()
    for o in await leader.backend.schedules.occurrences("a"):
        at = o.nominal
        while at <= o.last:
            covered[at] += 1
            at += timedelta(seconds=10)
    assert set(covered.values()) == {1}
    assert len(covered) == (max(covered) - min(covered)).total_seconds() / 10 + 1


# -- turns ----------------------------------------------------------------------------------------


async def test_tenants_take_turns(leader: Busy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "MOST_WAITING", 5)
    Slow(leader, seconds=20.0)
    for number in range(20):
        await leader.add(f"loud {number}", 300.0, tenant="loud")
    await leader.add("quiet", 300.0, tenant="quiet")
    await leader.add("nobody", 300.0)
    await run(leader, 3 * 3600, step=5.0)
    runs = await leader.backend.runs.find(limit=10_000)
    fired = Counter(str(run.schedule).partition(" ")[0] for run in runs)
    assert fired["loud"] > 200
    assert min(fired["quiet"], fired["nobody"]) >= 30, fired  # of 36


async def test_one_of_those_that_have_most_makes_room(
    leader: Busy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "MOST_WAITING", 4)
    for number in range(4):
        await leader.add(f"loud {number}", 10.0, tenant="loud")
    leader.clock.advance(10.0)
    await leader.ticker.step()
    await leader.clock.settle()
    await leader.add("quiet", 1.0, tenant="quiet")
    leader.clock.advance(1.0)
    await leader.ticker.step()
    [told] = [fact for fact in leader.told if isinstance(fact, SchedulePutOff)]
    assert told.uid == (await leader.found("loud 3")).uid
    await leader.settle()
    assert leader.thread.begun == ["loud 0", "loud 1", "quiet", "loud 2"]


# -- a thread that fails --------------------------------------------------------------------------


async def test_thread_that_cannot_be_started_is_told_once_and_tried_again(leader: Busy) -> None:
    failures = 5
    calls = list[str]()

    async def failing(function: Callable[..., Any], *args: Any) -> Any:
        calls.append(args[0].name)
        if len(calls) <= failures:
            raise RuntimeError("can't start new thread")
        return function(*args)

    leader.beside._off_loop = failing
    for name in ("dear", "dear 2"):
        await leader.store_text(name, dear())
    await leader.ticker.step()
    await leader.clock.settle()
    assert len(calls) == 1  # not again and again
    await run(leader, 60)
    assert set(calls[failures:][:2]) == {"dear", "dear 2"}
    assert [await leader.planned(name) for name in ("dear", "dear 2")] == [True, True]
    [failed] = [fact for fact in leader.told if isinstance(fact, ServiceFailed)]
    assert (failed.service, "can't start new thread" in failed.error) == ("planning", True)
    [recovered] = [fact for fact in leader.told if isinstance(fact, StoreRecovered)]
    assert (recovered.service, recovered.after > 0) == ("planning", True)


async def test_end_of_the_term_ends_the_attempts(leader: Busy) -> None:
    calls = list[str]()

    async def failing(function: Callable[..., Any], *args: Any) -> Any:
        calls.append(args[0].name)
        raise RuntimeError("can't start new thread")

    leader.beside._off_loop = failing
    await leader.store_text("dear", dear())
    await leader.ticker.step()
    await leader.clock.settle()
    leader.office.leading = None
    await leader.ticker.step()
    await run(leader, 60)
    assert calls == ["dear"]
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "tenure planning"]
