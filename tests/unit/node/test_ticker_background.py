"""Plans that take long are made off the ticker's loop; the others do not wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from tenure.facts import SchedulePutOff, ScheduleSetAside
from tenure.model import Change, Fence, Overlap, Schedule, ScheduleSpec
from tenure.node import background, ticker
from tenure.node.service import Surroundings
from tenure.node.ticker import CROWDED, PUT_OFF, Ticker
from tenure.triggers import dump, every, exclusions
from tests.unit.node.services import listening
from tests.unit.node.ticking import FENCE, QUIET, World, ticks

TOO_DEAR = "rrule FREQ=DAILY;INTERVAL=3;BYDAY=MO;COUNT=100000 start=2026-01-01"
_numbers = count()


def dear() -> str:
    """Takes thousands of units to read; none like it has been read before."""
    number = next(_numbers)
    return f"rrule FREQ=MONTHLY;COUNT=10000 start=2025-01-01T00:{number // 60:02}:{number % 60:02}"


class Thread:
    """Where the long ones are worked out, as soon as it may."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.may = asyncio.Event()

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        self.begun.append(args[0].name)
        await self.may.wait()
        return function(*args)


class Leader(World):
    """A ticker with a thread beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.thread = Thread()
        facts, self.told = listening()
        self.ticker = Ticker(
            self.store,
            self.office,
            Surroundings(self.clock, facts, QUIET),
            off_loop=self.thread.call,
        )

    async def store_text(self, name: str, text: str) -> Schedule:
        """As SQL does: nobody has read it yet."""
        spec = ScheduleSpec(name, text, "task", overlap=Overlap.ALLOW)
        change = Change(spec, None, self.clock.now())
        [schedule] = await self.backend.schedules.change([change])
        return schedule

    async def planned(self, name: str) -> bool:
        return (await self.found(name)).spec.trigger.startswith("{")

    async def found(self, name: str) -> Schedule:
        return (await self.backend.schedules.find([name]))[name]

    async def settle(self) -> None:
        self.thread.may.set()
        await self.clock.settle()


@pytest.fixture
async def leader() -> Leader:
    leader = Leader()
    assert await leader.backend.office.take(FENCE) == FENCE
    return leader


async def test_others_fire_while_a_long_plan_is_worked_out(leader: Leader) -> None:
    await leader.add("a", 10)
    await leader.store_text("dear", dear())
    for fired in (1, 2, 3):
        leader.clock.advance(10)
        await leader.ticker.step()
        assert len(await leader.fired()) == fired
        assert not await leader.planned("dear")
    assert leader.thread.begun == ["dear"]
    assert max(tick.late for tick in ticks(leader)[1:]) == 0  # what waits is no part of their tick


async def test_long_plan_is_carried_out_when_it_is_there(leader: Leader) -> None:
    schedule = await leader.store_text("dear", dear())
    leader.clock.advance(3600)
    await leader.ticker.step()
    leader.ticker._awake.clear()
    await leader.settle()
    assert leader.ticker._awake.is_set()
    await leader.ticker.step()
    assert await leader.planned("dear")
    found = await leader.found("dear")
    assert found.next_nominal is not None
    assert found.next_nominal > schedule.created_at
    assert leader.thread.begun == ["dear"]


async def test_many_long_plans_are_worked_out_one_after_the_other(leader: Leader) -> None:
    names = [f"dear {number}" for number in range(3 * QUIET.batch)]
    for name in names:
        await leader.store_text(name, dear())
    await leader.ticker.step()
    assert len(leader.thread.begun) <= 1
    await leader.settle()
    for _ in names:
        await leader.ticker.step()
        await leader.clock.settle()
    assert sorted(leader.thread.begun) == sorted(names)
    assert [await leader.planned(name) for name in names] == [True] * len(names)


async def test_they_do_not_take_the_place_of_others_in_a_look(leader: Leader) -> None:
    for number in range(50):
        await leader.store_text(f"dear {number}", dear())
        await leader.ticker.step()
    await leader.add("a", 10)
    leader.clock.advance(10)
    await leader.ticker.step()
    assert len(await leader.fired()) == 1


async def test_those_for_which_there_is_no_room_are_put_off(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "MOST_WAITING", 3)
    names = [f"dear {number}" for number in range(5)]
    for name in names:
        await leader.store_text(name, dear())
    await leader.ticker.step()
    told = [fact for fact in leader.told if isinstance(fact, SchedulePutOff)]
    assert [fact.reason for fact in told] == [CROWDED] * 2
    assert (await leader.found("dear 4")).next_due == leader.clock.now() + PUT_OFF
    await leader.settle()
    leader.clock.advance(60)
    for _ in names:
        await leader.ticker.step()
        await leader.clock.settle()
    assert [await leader.planned(name) for name in names] == [True] * 5


async def test_bound_counts_those_that_wait_already(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "MOST_WAITING", 3)
    for number in range(5):  # one with each look
        await leader.store_text(f"dear {number}", dear())
        await leader.ticker.step()
    told = [fact.uid for fact in leader.told if isinstance(fact, SchedulePutOff)]
    assert told == [(await leader.found(name)).uid for name in ("dear 3", "dear 4")]


async def test_plan_of_a_schedule_that_was_edited_meanwhile_is_not_used(leader: Leader) -> None:
    schedule = await leader.store_text("dear", dear())
    await leader.ticker.step()
    spec = ScheduleSpec("dear", "every 10s", "task", overlap=Overlap.ALLOW)
    change = Change(spec, None, leader.clock.now(), replaces=schedule)
    await leader.backend.schedules.change([change])
    await leader.settle()
    await leader.ticker.step()
    found = await leader.found("dear")
    assert '"seconds":10' in found.spec.trigger


async def test_plan_of_an_earlier_term_is_not_used(leader: Leader) -> None:
    await leader.store_text("dear", dear())
    await leader.ticker.step()
    leader.office.leading = fence = Fence("leader", 2, "ann")
    assert await leader.backend.office.take(fence) == fence
    await leader.ticker.step()
    assert leader.thread.begun == ["dear", "dear"]
    await leader.settle()
    await leader.ticker.step()
    assert await leader.planned("dear")


@pytest.mark.parametrize("refused", [True, False], ids=["refused", "seen"])
async def test_who_leads_no_more_works_out_nothing(leader: Leader, refused: bool) -> None:
    for number in range(3):
        await leader.store_text(f"dear {number}", dear())
    await leader.ticker.step()
    await leader.clock.settle()
    begun = list(leader.thread.begun)
    if refused:
        await leader.add("a", 10)
        leader.clock.advance(10)
        bob = Fence("leader", 2, "bob")
        assert await leader.backend.office.take(bob) == bob
    else:
        leader.office.leading = None
    await leader.ticker.step()
    assert len(leader.office.refused) == refused
    await leader.settle()
    assert leader.thread.begun == begun


@pytest.mark.parametrize("beside", [True, False])
async def test_trigger_that_costs_too_much_is_set_aside_with_the_remedy(
    leader: Leader, beside: bool
) -> None:
    if not beside:
        leader.ticker._background = None
    await leader.store_text("bad", TOO_DEAR)
    await leader.add("a", 10)
    leader.clock.advance(10)
    await leader.ticker.step()
    assert len(await leader.fired()) == 1
    await leader.settle()
    await leader.ticker.step()
    bad = await leader.found("bad")
    assert not bad.active
    assert (bad.reason or "").startswith("set aside: the stored trigger 'rrule FREQ=DAILY;INTERVAL")
    assert "it takes too much work to read it" in (bad.reason or "")
    assert "UNTIL or end= instead of a COUNT" in (bad.reason or "")
    assert [fact.uid for fact in leader.told if isinstance(fact, ScheduleSetAside)] == [bad.uid]


async def test_ordinary_plan_never_leaves_the_loop(leader: Leader) -> None:
    texts = [
        "every 5m",
        "every 2 months start=2026-01-31 tz=Europe/Berlin",
        "cron 0 7 * * MON-FRI tz=Europe/Berlin",
        "cron 0 7 29 2 *",
        "at 2026-12-31T18:00 tz=America/New_York",
        "rrule FREQ=DAILY;COUNT=100000 start=2026-01-01",
        "rrule FREQ=WEEKLY;BYDAY=MO,TH;COUNT=500 start=2026-01-01",
        "rrule FREQ=MONTHLY;BYDAY=-1FR;COUNT=24 start=2026-01-01",
        "rrule FREQ=SECONDLY;COUNT=100000 start=2026-01-01",
    ]
    for text in texts:
        await leader.store_text(text, text)
    await leader.ticker.step()
    leader.clock.advance(400 * 86_400)
    for _ in texts:
        await leader.ticker.step()
    assert leader.thread.begun == []
    assert [await leader.planned(text) for text in texts] == [True] * len(texts)


async def test_what_takes_long_each_time_is_not_tried_on_the_loop_again(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Too many in a row to be found: each time they are passed.
    monkeypatch.setattr(exclusions, "MOST", 0)
    begin = leader.clock.now()
    seconds = [begin + timedelta(seconds=n) for n in range(1, 7_000) if n % 600]
    trigger = every(seconds=1, start=begin, except_dates=seconds)
    spec = ScheduleSpec("dear", dump(trigger), "task", overlap=Overlap.ALLOW)
    await leader.backend.schedules.change([Change(spec, begin, begin)])
    leader.thread.may.set()
    await leader.ticker.step()
    await leader.settle()
    await leader.ticker.step()
    assert len(await leader.fired("dear")) == 1
    tried = list[str]()
    monkeypatch.setattr(ticker, "plan", lambda due, *rest: tried.extend(s.name for s in due))
    leader.clock.advance(600)
    await leader.ticker.step()
    assert tried == []
    assert leader.thread.begun == ["dear", "dear"]
    monkeypatch.undo()
    await leader.settle()
    await leader.ticker.step()
    assert len(await leader.fired("dear")) == 2


async def test_catching_up_with_much_is_worked_out_beside(leader: Leader) -> None:
    await leader.add("a", 10, catch_up="all", catch_up_limit=1_000)
    leader.clock.advance(20_000)
    await leader.ticker.step()
    assert leader.thread.begun == ["a"]
    await leader.settle()
    await leader.ticker.step()
    assert len(await leader.fired()) == 1_000
