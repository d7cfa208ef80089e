"""The composition root: the services of one process, wired together.

    keeper    renews every lease of this node              presence  says that this node lives
    elector   leads, or waits for its turn                 worker    claims and executes runs
    ticker    fires what is due (if leading)               reaper    buries dead nodes (if leading)
    census    counts the nodes (if leading)                canceller tells the worker what to end
    sequencer gives events their positions (if leading)
    hung      tells of runs that do not end                death_watch  wakes it (if leading)
    reporter  brings what tasks tell to the store          skew      compares the clocks
    skips     say what was in the way of an occurrence
    rollout   makes the stored schedules be what the code of the live nodes declares
    relays    deliver events to sinks, each under a lease of its own

All of them run on one event loop: Tenure's own, on its own thread (process/loop_thread.py), so that
neither a blocked loop nor a blocked thread of the application can starve a heartbeat. A stop gives
up first what other nodes wait for most: leadership, then claims, running tasks and presence.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from tenure import triggers
from tenure.backends.address import NOWHERE, Address
from tenure.backends.base import CANCELS, RUNS, SCHEDULES, UNSEQUENCED, Stores
from tenure.backends.base import lease_topic as topic_of
from tenure.errors import StoreError
from tenure.events.relay import Relay
from tenure.events.sinks.base import Sink
from tenure.facts import NodeStarted, NodeStopped
from tenure.model import TARGETS, Holder, LeaseRecord
from tenure.model.version import VERSION
from tenure.node import names
from tenure.node.background import OffLoop
from tenure.node.canceller import Canceller
from tenure.node.census import Census
from tenure.node.death_watch import DeathWatch
from tenure.node.elector import Elector
from tenure.node.hung_runs import HungRuns
from tenure.node.keeper import Keeper
from tenure.node.presence import PRESENCE, Presence
from tenure.node.reaper import Reaper
from tenure.node.relay import RelayService
from tenure.node.reporter import Reporter
from tenure.node.rollout import Rollout
from tenure.node.sequencer import Sequencer
from tenure.node.service import Service, Surroundings
from tenure.node.skew import SkewWatch
from tenure.node.skips import Skips
from tenure.node.summarizer import Summarizer
from tenure.node.ticker import Ticker
from tenure.node.worker import Worker
from tenure.process.identity import new_holder
from tenure.schedules.declarations import collect
from tenure.tasks.executor import Execute
from tenure.tasks.registry import Tasks

LEADER = names.LEADER
NAMES_LIMIT = 16_384
"""How many characters of task names a presence has at most; beyond that only their number."""


class Node:
    """One process's part in the cluster."""

    def __init__(
        self,
        stores: Stores,
        around: Surroundings,
        tasks: Tasks,
        execute: Execute,
        *,
        app: str = "default",
        location: str = "",
        at: Address = NOWHERE,
        new_holder: Callable[[], Holder] = new_holder,
        off_loop: OffLoop | None = None,
        relays: Sequence[tuple[Relay, Sink]] = (),
        tells_more: bool = False,
    ) -> None:
        """`tells_more`: with the services that only tell people something, and ask the store for
        it. The simulation goes without: they decide nothing."""
        self._stores = stores
        self._settings = around.settings
        self._facts = around.facts
        self._tasks = tasks
        self._location = location
        self._unsubscribe: list[Callable[[], None]] = []
        declared = collect(tasks, around.settings, app)
        self.keeper = Keeper(stores.leases, around)
        self.presence = Presence(
            stores.leases,
            self.keeper,
            new_holder,
            self._info(app, declared.edition.digest),
            around,
            changed=self._presence_changed,
            lost=self._presence_lost,
        )
        holder = self.presence.holder
        self.elector = Elector(
            LEADER,
            holder,
            stores.leases,
            self.keeper,
            around,
            office=stores.office,
            node=lambda: self.presence.holder.id,
            changed=self._leadership_changed,
        )
        self.ticker = Ticker(
            stores.schedules,
            self.elector,
            around,
            self._make_way_for_newer_code,
            off_loop,
            lambda: stores.wakeups.subscribe(SCHEDULES, self.ticker.wake),
        )
        self.reaper = Reaper(holder, stores, self.elector, around, trusts=self.ticker.jump.trusts)
        self.sequencer = Sequencer(stores.events, self.elector, around)
        self.rollout = Rollout(
            declared, stores, lambda: self.presence.node, around, at, lambda: self.elector.notice
        )
        self.census = Census(
            stores.leases,
            self.elector,
            lambda: self.presence.holder.id,
            self.rollout.patience,
            around,
        )
        self.death_watch = DeathWatch(
            stores.leases,
            self.elector,
            lambda: (*self.reaper.presences, *self.census.presences),
            self.reaper.wake,
            around,
        )
        self.hung = HungRuns(self.presence.describe, around)
        self.worker = Worker(
            stores.runs,
            tasks,
            lambda: self.presence.node,
            execute,
            around,
            lambda: stores.wakeups.subscribe(RUNS, self.worker.told),
            self.hung,
        )
        self.canceller = Canceller(stores.runs, self.worker, around)
        self.reporter = Reporter(stores.runs, self.worker, around)
        self.relays = [
            RelayService(relay, sink, stores, holder, self.keeper, around) for relay, sink in relays
        ]
        self.skips = Skips(stores.runs, stores.schedules, around)
        self.skew = SkewWatch(stores.now, partial(self.presence.note, "skew"), around)
        self.summarizer = Summarizer(stores.summaries, self.elector, around)
        for_people = (self.skips, self.skew, self.summarizer)
        self._for_people: tuple[Service, ...] = for_people if tells_more else ()
        if tells_more:
            self.ticker.on_skipped = self.skips.add

    @property
    def id(self) -> str:
        return self.presence.holder.id

    @property
    def is_leader(self) -> bool:
        return self.elector.leading is not None

    @property
    def ready(self) -> bool:
        """Can it execute runs? Not if hung ones have taken all its slots."""
        return self.hung.ready

    @property
    def services(self) -> tuple[Service, ...]:
        return (
            self.keeper,
            self.presence,
            self.elector,
            self.ticker,
            self.reaper,
            self.sequencer,
            self.census,
            self.death_watch,
            self.rollout,
            self.worker,
            self.hung,
            self.canceller,
            self.reporter,
            *self.relays,
            *self._for_people,
        )

    async def start(self) -> None:
        """Join the cluster. Returns once the services run; this node may lead later, or never."""
        for relay in self.relays:
            await relay.open()
        self._unsubscribe = [
            self._stores.lease_wakeups.subscribe(topic_of(LEADER), self.elector.wake),
            self._stores.wakeups.subscribe(CANCELS, self.canceller.wake),
            self._stores.wakeups.subscribe(UNSEQUENCED, self.sequencer.wake),
        ]
        for service in self.services:
            service.start()
        self._facts.tell(NodeStarted(self.id, self._location, len(self._tasks)))

    async def stop(self, grace: float | None = None) -> None:
        """Hand over and leave; running tasks get `grace` seconds to end."""
        grace = self._settings.grace if grace is None else grace
        await self.ticker.halt()
        await self.reaper.halt()
        await self.sequencer.halt()
        await self.summarizer.halt()
        await self.census.halt()
        await self.rollout.halt()
        await self.elector.halt()
        with suppress(StoreError):  # then the lease ends with its ttl
            await self.elector.resign()
        await asyncio.gather(*(relay.halt() for relay in self.relays))
        await self.death_watch.halt()  # not before: it only reads, and may look at many nodes
        with suppress(StoreError, TimeoutError):
            await self.worker.stop(grace)
        await self.worker.halt()
        await self.hung.halt()
        await self.canceller.halt()
        await self.reporter.halt()
        await self.skips.halt()
        await self.skew.halt()
        await self.presence.halt()
        with suppress(StoreError):
            await self.presence.leave()
        await self.keeper.halt()
        while self._unsubscribe:
            self._unsubscribe.pop()()
        self._facts.tell(NodeStopped(self.id))

    async def _make_way_for_newer_code(self, kinds: set[str]) -> None:
        """Some schedules have triggers or targets that this code does not know: a node that does
        is to lead."""
        async with asyncio.timeout(self._settings.call_timeout):
            nodes = await self._stores.leases.all(PRESENCE)
        for node in nodes:
            if node.live and node.holder != self.id and _leads(node) and kinds <= _known_to(node):
                await self.elector.make_way(self._settings.ttl, "made way for newer code")
                return

    def _leadership_changed(self) -> None:
        self.ticker.wake()
        self.reaper.wake()
        self.sequencer.wake()
        self.summarizer.wake()
        self.census.wake()
        self.death_watch.wake()

    def _presence_changed(self) -> None:
        self.worker.wake()
        self.rollout.wake()

    def _presence_lost(self, node: str) -> None:
        self.worker.disown(node)

    def _info(self, app: str, edition: str) -> dict[str, Any]:
        executed = [task for task in self._tasks if self._settings.executes(task.options.queue)]
        names = sorted(task.name for task in executed)
        if sum(map(len, names)) > NAMES_LIMIT:
            names = []  # `tasks` still says how many
        return {
            "app": app,
            "edition": edition,
            "version": VERSION,
            "concurrency": self._settings.concurrency,
            "tasks": len(executed),
            "task_names": names,
            "queues": list(self._settings.queues),
            "leads": self._settings.leads,
            "retention": self._settings.retention,
            "skew_limit": self._settings.skew_limit,
            "parent": os.getppid(),
            "triggers": triggers.kinds(),
            "targets": sorted(TARGETS),
        }


def _leads(node: LeaseRecord) -> bool:
    """Whether it may lead. Older code does not say, and may."""
    return node.info.get("leads") is not False


def _known_to(node: LeaseRecord) -> set[str]:
    """The kinds of triggers and targets that a node says it knows. Its row may have been edited."""
    told = [node.info.get(words) for words in ("triggers", "targets")]
    lists = [words for words in told if isinstance(words, list)]
    return {kind for words in lists for kind in words if isinstance(kind, str)}
