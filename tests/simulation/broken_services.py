"""Broken variants of the services: presence, catching up, the hold at a jump."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tenure.jumps import JumpWatch
from tenure.model import DueSchedule
from tenure.node import Node
from tenure.planning import Plan, plan


class ClaimsWhileSuspended(Node):
    """A node takes itself to be present until the store says otherwise."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        presence = self.presence

        def present() -> str | None:
            held = presence._held
            return held.grant.holder if held is not None and held.over is None else None

        self.worker._present = present


class CatchesUpOneMore(Node):
    """The limit of catching up is off by one."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)

        async def more(due: Sequence[DueSchedule], moment: datetime, so_far: Plan) -> None:
            generous = [one._replace(catch_up_limit=one.catch_up_limit + 1) for one in due]
            plan(generous, moment, so_far=so_far)

        self.ticker._plan = more  # type: ignore[method-assign]


class CatchesUpLate(Node):
    """Nobody looks how late it is."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)

        async def late(due: Sequence[DueSchedule], moment: datetime, so_far: Plan) -> None:
            patient = [one._replace(catch_up_grace=3_600.0) for one in due]
            plan(patient, moment, so_far=so_far)

        self.ticker._plan = late  # type: ignore[method-assign]


class CatchesUpTheFirst(Node):
    """Of what was not fired, the oldest is."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)

        async def first(due: Sequence[DueSchedule], moment: datetime, so_far: Plan) -> None:
            for one in due:
                plan([one], one.next_nominal or moment, so_far=so_far)

        self.ticker._plan = first  # type: ignore[method-assign]


class HoldsNothing(Node):
    """What a jump of the store's clock brings is fired at once."""

    def __init__(self, **parts: Any) -> None:
        super().__init__(**parts)
        self.ticker._jumps = JumpWatch(float("inf"), 0.0)
