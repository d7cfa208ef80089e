"""Retention and a store's clock that jumps: the real ticker watches it, the real reaper waits."""

from __future__ import annotations

import pytest

from tenure.backends.base import Stores
from tenure.backends.memory import MemoryBackend
from tenure.model import Change, Fence, Overlap, Result, RunState, ScheduleSpec
from tenure.node.reaper import PRUNE_EVERY, Reaper
from tenure.node.service import Surroundings
from tenure.node.ticker import Ticker
from tenure.testing import FakeClock
from tenure.testing.contract.harness import finish
from tests.unit.node.services import SETTINGS, Office, holder, listening

DAYS = 86_400.0
AHEAD = 8 * DAYS
assert SETTINGS.retention < AHEAD


class Leader:
    """A leader, and history of the last few minutes."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backend = MemoryBackend(self.clock)
        self.office = Office()
        facts, self.told = listening()
        around = Surroundings(self.clock, facts, SETTINGS)
        self.ticker = Ticker(self.backend.schedules, self.office, around)
        self.reaper = Reaper(
            holder("ann"),
            Stores.of(self.backend),
            self.office,
            around,
            trusts=self.ticker.jump.trusts,
        )

    async def begin(self, term: int) -> None:
        self.office.leading = fence = Fence("leader", term, "ann")
        assert await self.backend.office.take(fence) == fence

    async def pass_time(self, seconds: float) -> None:
        """As the services do it: the ticker looks at least once in 5 s, the reaper in 2 s."""
        for _ in range(int(seconds)):
            self.clock.advance(1.0)
            await self.reaper.step()
            if int(self.clock.monotonic()) % 5 == 0:
                await self.ticker.step()

    async def history(self) -> int:
        return len(await self.backend.runs.find(limit=1_000))


@pytest.fixture
async def leader() -> Leader:
    leader = Leader()
    spec = ScheduleSpec("a", "{}", "task", overlap=Overlap.ALLOW)
    await leader.backend.schedules.change([Change(spec, None, None)])
    for key in range(5):
        await leader.backend.schedules.run_now("a", str(key))
    runs = (await leader.backend.runs.claim("node", ["task"], 9)).runs
    done = [Result(run.id, run.claim, "node", RunState.SUCCEEDED) for run in runs]
    assert all(await finish(leader.backend, done))
    return leader


async def test_history_survives_a_jump_that_is_put_right(leader: Leader) -> None:
    await leader.begin(1)
    await leader.pass_time(PRUNE_EVERY - 3)
    leader.clock.jump(AHEAD)  # the next prune comes before the ticker's next look
    await leader.pass_time(SETTINGS.jump_hold - 4)
    leader.clock.jump(-AHEAD)
    await leader.pass_time(3 * PRUNE_EVERY)
    assert await leader.history() == 5


async def test_history_survives_a_change_of_leader_while_the_clock_is_off(leader: Leader) -> None:
    await leader.pass_time(PRUNE_EVERY)  # as a standby
    leader.clock.jump(AHEAD)
    await leader.begin(1)
    await leader.pass_time(SETTINGS.jump_hold - 6)
    leader.clock.jump(-AHEAD)
    await leader.pass_time(3 * PRUNE_EVERY)
    assert await leader.history() == 5
    await leader.begin(2)
    leader.clock.jump(AHEAD)
    await leader.reaper.step()
    await leader.ticker.step()
    await leader.reaper.step()
    assert await leader.history() == 5


async def test_clock_that_stays_where_it_jumped_is_believed_in_the_end(leader: Leader) -> None:
    await leader.begin(1)
    await leader.pass_time(PRUNE_EVERY)
    leader.clock.jump(AHEAD)
    await leader.pass_time(2 * SETTINGS.jump_hold - 1)
    assert await leader.history() == 5
    await leader.pass_time(PRUNE_EVERY)
    assert await leader.history() == 0
