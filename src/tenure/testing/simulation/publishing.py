"""Who emits events in a simulated cluster, and who reads them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from random import Random

from tenure.errors import Conflict, StoreError
from tenure.model import Content, Event, NewEvent
from tenure.schedules.drafts import Drafts, NewSchedule
from tenure.schedules.editor import Editor
from tenure.settings import Settings
from tenure.testing.simulation.history import FAULT, PUBLISHER, READER, History
from tenure.testing.simulation.loop import Process, SimulationLoop
from tenure.testing.simulation.network import Link, Network
from tenure.triggers import every

TOPIC, GROUP = "news", "readers"
KEYS = ("a", "b", None)


class Publisher:
    """Adds schedules that emit, through the real editor, and emits by itself."""

    def __init__(
        self,
        loop: SimulationLoop,
        network: Network,
        history: History,
        settings: Settings,
        source: Random,
    ) -> None:
        self._loop = loop
        self._history = history
        self._settings = settings
        self._source = source
        self._process = Process(PUBLISHER)
        link = Link(self._process)
        self._events = network.events(link)
        self._editor = Editor(network.joined(link), Drafts(settings=settings))
        self._count = 0

    def begin(self, until: float) -> None:
        for number in range(self._source.choice([0, 1, 2])):
            self._loop.spawn(self._process, self._add(f"emits{number + 1}"))
        if self._source.random() < 0.7:
            self._loop.spawn(self._process, self._emit(until))

    async def _add(self, name: str) -> None:
        source = self._source
        new = NewSchedule(
            name,
            every(seconds=source.choice([1, 1.5, 3])),
            emit=Event(TOPIC, "Ticked", name, source.choice(KEYS)),
            catch_up=source.choice(["latest", "all", "none"]),
        )
        await asyncio.sleep(source.uniform(0.0, 5.0))  # noqa: TID251 - virtual
        self._history.add(self._loop.now, PUBLISHER, FAULT, "add", name)
        await _guarded(self._editor.add(new), self._settings.ttl)

    async def _emit(self, until: float) -> None:
        source = self._source
        while self._loop.now < until:
            await asyncio.sleep(source.uniform(0.0, 2.0))  # noqa: TID251 - virtual
            self._count += 1
            content = Content(TOPIC, "Said", str(self._count), source.choice(KEYS))
            new = NewEvent(f"said {self._count}", content)
            for _ in range(source.choice([1, 1, 2])):  # as one does who has had no answer
                self._loop.spawn(
                    self._process, _guarded(self._events.append([new]), self._settings.ttl)
                )


class Reader:
    """One of a group's consumers. What it takes is gone for the group, whether or not the answer
    comes: it has no transaction of its own."""

    def __init__(
        self, loop: SimulationLoop, network: Network, settings: Settings, source: Random
    ) -> None:
        self._loop = loop
        self._settings = settings
        self._source = source
        self._process = Process(READER)
        self._events = network.events(Link(self._process))

    def begin(self) -> None:
        self._loop.spawn(self._process, self._read())

    async def _read(self) -> None:
        while True:
            await _guarded(self._events.follow(TOPIC, GROUP), self._settings.ttl)
            await _guarded(self._events.consume(TOPIC, GROUP, 5), self._settings.ttl)
            await asyncio.sleep(self._source.uniform(0.0, 0.8))  # noqa: TID251 - virtual


async def _guarded(doing: Awaitable[object], seconds: float) -> None:
    with suppress(StoreError, Conflict, TimeoutError):
        async with asyncio.timeout(seconds):
            await doing
