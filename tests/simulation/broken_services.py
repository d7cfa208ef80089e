"""Broken variants of the services: presence, catching up, the hold at a jump."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from random import Random
from typing import Any

from tenure.model import DueSchedule
from tenure.node.clock_jumps import JumpWatch
from tenure.node.node import Node
from tenure.schedules.planning import Plan, plan
from tenure.tasks.registry import Tasks
from tenure.triggers import every


class ClaimsWhileSuspended(Node):
    """A node takes itself to be present until the store says otherwise."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        presence = self.presence

        def present() -> str | None:
            held = presence._held
            return held.grant.holder if held is not None and held.over is None else None

        self.worker._present = present


class CatchesUpOneMore(Node):
    """The limit of catching up is off by one."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)

        async def more(due: Sequence[DueSchedule], moment: datetime, so_far: Plan) -> None:
            generous = [one._replace(catch_up_limit=one.catch_up_limit + 1) for one in due]
            plan(generous, moment, so_far=so_far)

        self.ticker._plan = more  # type: ignore[method-assign]


class CatchesUpLate(Node):
    """Nobody looks how late it is."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)

        async def late(due: Sequence[DueSchedule], moment: datetime, so_far: Plan) -> None:
            patient = [one._replace(catch_up_grace=3_600.0) for one in due]
            plan(patient, moment, so_far=so_far)

        self.ticker._plan = late  # type: ignore[method-assign]


class CatchesUpTheFirst(Node):
    """Of what was not fired, the oldest is."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)

        async def first(due: Sequence[DueSchedule], moment: datetime, so_far: Plan) -> None:
            for one in due:
                plan([one], one.next_nominal or moment, so_far=so_far)

        self.ticker._plan = first  # type: ignore[method-assign]


class HoldsNothing(Node):
    """What a jump of the store's clock brings is fired at once."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.ticker._jumps = JumpWatch(float("inf"), 0.0)


class LooksAndThenListens(Node):
    """Whoever goes to sleep forgets what it was told while it looked: a lost wake-up."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        worker, step = self.worker, self.worker.step

        async def forgetful() -> float | None:
            delay = await step()
            worker._awake.clear()
            return delay

        worker.step = forgetful  # type: ignore[method-assign]


def close_together(source: Random) -> Tasks:
    """Tasks that come due one right after the other, and then none for a while."""
    tasks = Tasks()

    async def work() -> None:
        await asyncio.sleep(source.uniform(0.0, 0.02))

    for number in range(4):
        tasks.declare(work, trigger=every(seconds=2, jitter=0.05), name=f"task{number}")
    return tasks
