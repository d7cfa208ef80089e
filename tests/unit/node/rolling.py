"""Nodes of several apps and editions on a memory store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tenure import every
from tenure.backends.base import Stores
from tenure.backends.memory import MemoryBackend
from tenure.facts import Fact
from tenure.model import Grant, Schedule
from tenure.node.presence import PRESENCE
from tenure.node.rollout import Rollout
from tenure.node.service import Surroundings
from tenure.schedules.declarations import collect
from tenure.schedules.drafts import Drafts
from tenure.schedules.editor import Editor
from tenure.tasks.registry import Tasks
from tenure.testing import FakeClock
from tests.unit.node.services import SETTINGS, faulty, holder, listening

TTL = SETTINGS.ttl
POLL = SETTINGS.rollout_poll
GRACE = SETTINGS.rollout_grace


Limits = Mapping[str, int]
"""By task, its `max_running`."""


class World:
    """A store, and nodes of several apps and editions."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backend = MemoryBackend(self.clock)
        self.editor = Editor(self.backend, Drafts())

    async def start(self, name: str, app: str = "app", **code: float) -> Node:
        return await self._started(Node(self, name, app, code))

    async def limited(self, name: str, limits: Limits, app: str = "app") -> Node:
        """With these tasks, each of which has a limit."""
        return await self._started(Node(self, name, app, dict.fromkeys(limits, 10.0), limits))

    async def _started(self, node: Node) -> Node:
        await node.rollout.declare()
        await node.appear()
        return node

    async def the(self, name: str) -> Schedule:
        return await self.editor.get(name)

    async def limit(self, task: str, app: str = "app") -> int | None:
        rules = (await self.backend.editions.declared(app)).rules
        return rules[task].max_running if task in rules else None

    async def interval(self, name: str) -> str:
        return (await self.the(name)).spec.trigger.partition('"seconds":')[2].partition(",")[0]

    async def pass_time(self, seconds: float, *living: Node) -> None:
        """These renew their presence meanwhile."""
        while seconds > 0:
            self.clock.advance(min(seconds, TTL / 3))
            seconds -= TTL / 3
            for node in living:
                await self.backend.leases.renew([node.grant])


class Node:
    """The rollout of a node, and its presence."""

    def __init__(
        self,
        world: World,
        name: str,
        app: str,
        code: dict[str, float],
        limits: Limits | None = None,
    ) -> None:
        tasks = Tasks()
        for task, seconds in code.items():
            most = (limits or {}).get(task)
            tasks.declare(print, name=task, trigger=every(seconds=seconds), max_running=most)
        self.name = name
        self.declared = collect(tasks, SETTINGS, app)
        self.world = world
        self.present: str | None = None
        facts, self.told = listening()
        backend = world.backend
        self.leases: Any = faulty(backend.leases)
        self.editions: Any = faulty(backend.editions)
        self.schedules: Any = faulty(backend.schedules)
        self.rollout = Rollout(
            self.declared,
            replace(
                Stores.of(backend),
                leases=self.leases,
                editions=self.editions,
                schedules=self.schedules,
            ),
            lambda: self.present,
            Surroundings(world.clock, facts, SETTINGS),
        )

    async def appear(self) -> None:
        info = {"app": self.declared.app, "edition": self.declared.edition.digest}
        grant = await self.world.backend.leases.acquire(
            PRESENCE + self.name, holder(self.name), TTL, info=info
        )
        assert isinstance(grant, Grant)
        self.grant, self.present = grant, self.name

    async def leave(self) -> None:
        await self.world.backend.leases.release(self.grant, "left")
        self.present = None

    async def step(self) -> list[Fact]:
        """What it tells of this step."""
        self.told.clear()
        await self.rollout.step()
        return list(self.told)

    async def wait(self) -> list[Fact]:
        """What it tells of a step, after those that were away at this one have ceased to count."""
        assert not await self.step()
        await self.world.pass_time(GRACE + 0.1, self)
        return await self.step()


async def settle(world: World, *nodes: Node) -> None:
    """Let starts be no news any more, and let everybody have looked."""
    await world.pass_time(TTL + 1, *nodes)
    for node in nodes:
        assert not await node.step()
