"""The composition root: the services of one process, wired together.

    keeper    renews every lease of this node              presence  says that this node lives
    elector   leads, or waits for its turn                 worker    claims and executes runs
    ticker    fires what is due (if leading)               reaper    buries dead nodes (if leading)
    declarer  makes the stored schedules be what the code of the live nodes declares

All of them run on one event loop: Tenure's own, on its own thread (engine.py), so that neither a
blocked loop nor a blocked thread of the application can starve a heartbeat. The order of a stop is
the order of what others wait for: leadership, claims, running tasks, presence.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from typing import Any

from tenure import triggers
from tenure.address import NOWHERE, Address
from tenure.backends.base import (
    RUNS,
    SCHEDULES,
    LeaseStore,
    ReleaseStore,
    RunStore,
    ScheduleStore,
    Wakeups,
)
from tenure.backends.base import lease_topic as topic_of
from tenure.clock import Clock
from tenure.declarations import collect
from tenure.declarer import Declarer
from tenure.elector import Elector
from tenure.errors import StoreError
from tenure.facts import Facts, NodeStarted, NodeStopped
from tenure.identity import new_holder
from tenure.keeper import Keeper
from tenure.model import Holder
from tenure.presence import PRESENCE, Presence
from tenure.reaper import Reaper
from tenure.settings import Settings
from tenure.tasks import Tasks
from tenure.ticker import Ticker
from tenure.worker import Execute, Worker

LEADER = "tenure/leader"
NAMES_LIMIT = 16_384
"""How long the names of a node's tasks may be, all in all, to be told with its presence."""


@cache
def _version() -> str:
    """Looked up once: it reads and parses files."""
    return version("tenure")


class Node:
    """One process's part in the cluster."""

    def __init__(
        self,
        *,
        leases: LeaseStore,
        schedules: ScheduleStore,
        releases: ReleaseStore,
        runs: RunStore,
        wakeups: Wakeups,
        lease_wakeups: Wakeups | None = None,
        tasks: Tasks,
        execute: Execute,
        settings: Settings,
        clock: Clock,
        facts: Facts,
        app: str = "default",
        location: str = "",
        at: Address = NOWHERE,
        new_holder: Callable[[], Holder] = new_holder,
    ) -> None:
        self._wakeups = wakeups
        self._lease_wakeups = lease_wakeups or wakeups
        self._settings = settings
        self._facts = facts
        self._tasks = tasks
        self._location = location
        self._unsubscribe: list[Callable[[], None]] = []
        declared = collect(tasks, settings, app)
        self.keeper = Keeper(leases, clock, facts)
        self.presence = Presence(
            leases,
            self.keeper,
            new_holder,
            self._info(app, declared.release.digest),
            settings,
            clock,
            facts,
            changed=self._presence_changed,
            lost=self._presence_lost,
        )
        holder = self.presence.holder
        self.elector = Elector(
            LEADER,
            holder,
            leases,
            self.keeper,
            settings,
            clock,
            facts,
            office=schedules,
            changed=self._leadership_changed,
        )
        leading, deposed = lambda: self.elector.leading, self.elector.deposed
        self._leases = leases
        self.ticker = Ticker(
            schedules, leading, deposed, settings, clock, facts, self._make_way_for_newer_code
        )
        self.reaper = Reaper(
            holder,
            leases,
            runs,
            releases,
            leading,
            deposed,
            settings,
            clock,
            facts,
            steady=lambda: held.steady if (held := self.elector.held) else 0.0,
            store_now=schedules.now,
            trusts=self.ticker.jump.trusts,
        )
        self.declarer = Declarer(
            declared,
            leases,
            releases,
            schedules,
            lambda: self.presence.node,
            settings,
            clock,
            facts,
            at,
        )
        self.worker = Worker(
            runs, tasks, lambda: self.presence.node, execute, settings, clock, facts
        )

    @property
    def id(self) -> str:
        return self.presence.holder.id

    @property
    def is_leader(self) -> bool:
        return self.elector.leading is not None

    async def start(self) -> None:
        """Join the cluster. Returns once the services run; leadership comes when it comes."""
        self._unsubscribe = [
            self._lease_wakeups.subscribe(topic_of(LEADER), self.elector.wake),
            self._wakeups.subscribe(SCHEDULES, self.ticker.wake),
            self._wakeups.subscribe(RUNS, self.worker.wake),
        ]
        for service in (
            self.keeper,
            self.presence,
            self.elector,
            self.ticker,
            self.reaper,
            self.declarer,
            self.worker,
        ):
            service.start()
        self._facts.tell(NodeStarted(self.id, self._location, len(self._tasks)))

    async def stop(self, grace: float | None = None) -> None:
        """Hand over and leave; running tasks get `grace` seconds to end."""
        grace = self._settings.grace if grace is None else grace
        await self.ticker.halt()
        await self.reaper.halt()
        await self.declarer.halt()
        await self.elector.halt()
        with suppress(StoreError):  # whoever waits will find out by the ttl
            await self.elector.resign()
        with suppress(StoreError, TimeoutError):
            await self.worker.stop(grace)
        await self.worker.halt()
        await self.presence.halt()
        with suppress(StoreError):
            await self.presence.leave()
        await self.keeper.halt()
        while self._unsubscribe:
            self._unsubscribe.pop()()
        self._facts.tell(NodeStopped(self.id))

    async def _make_way_for_newer_code(self, kinds: set[str]) -> None:
        """Some schedules have triggers that this code cannot read. If a node can, it shall lead."""
        async with asyncio.timeout(self._settings.call_timeout):
            nodes = await self._leases.all(PRESENCE)
        for node in nodes:
            if node.live and node.holder != self.id and kinds <= set(node.info.get("triggers", ())):
                await self.elector.make_way(self._settings.ttl, "made way for newer code")
                return

    def _leadership_changed(self) -> None:
        self.ticker.wake()
        self.reaper.wake()

    def _presence_changed(self) -> None:
        self.worker.wake()
        self.declarer.wake()

    def _presence_lost(self, node: str) -> None:
        self.worker.disown(node)

    def _info(self, app: str, release: str) -> dict[str, Any]:
        names = sorted(task.name for task in self._tasks)
        if sum(map(len, names)) > NAMES_LIMIT:
            names = []  # it says how many, and not which
        return {
            "app": app,
            "release": release,
            "version": _version(),
            "concurrency": self._settings.concurrency,
            "tasks": len(self._tasks),
            "task_names": names,
            "parent": os.getppid(),
            "triggers": triggers.kinds(),
        }
