"""What a process knows about its own node, without asking a store.

The watch is an observer (scheduler/observers.py). It notes, on Tenure's loop, that the loop
advances, which calls to the store succeed, and what the facts say. Any thread may read it: a
process whose application is blocked still answers for its node.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import TypeVar

from tenure.backends.base import LeaseBackend, Stores
from tenure.facts import Fact, StartStage
from tenure.node.node import Node
from tenure.observe.calls import LEASES, STORE, Call, listening
from tenure.scheduler.observers import Observer, Observers, Subject

BEAT_EVERY = 1.0
STEADY = frozenset({"renew"})
"""Calls that every node repeats all the time. If one fails, only its own success ends that: a store
that lets nobody write may still be read."""

O = TypeVar("O", bound=Observer)  # noqa: E741 - an observer


class Watch:
    """Follows one scheduler of this process."""

    def __init__(self) -> None:
        self._state = "not started"
        self._node: Node | None = None
        self._pid = os.getpid()
        self.stage = ""
        """While it starts: the stage it is at."""
        self.subject: Subject | None = None
        self.beat_at = 0.0
        """When Tenure's loop was last seen to advance, on the boot clock."""
        self._failing: dict[str, tuple[float, str]] = {}
        """Since when, and which call."""
        self._beating: asyncio.TimerHandle | None = None

    def starting(self, subject: Subject) -> None:
        self.subject, self._state, self.stage = subject, "starting", ""
        self._pid = os.getpid()
        self._failing.clear()
        subject.around.facts.on("start.stage", self._staged, at_once=True)
        self._beat()

    def stores(self, stores: Stores) -> Stores:
        return listening(stores, self._called, self._clock)

    def joined(self, node: Node, backends: Sequence[LeaseBackend]) -> None:
        self._node, self._state = node, "joined"

    async def leaving(self) -> None:
        self._state = "stopping"

    def stopped(self) -> None:
        self._node, self._state = None, "stopped"
        self._failing.clear()
        if self._beating is not None:
            self._beating.cancel()
            self._beating = None

    @property
    def state(self) -> str:
        """not started, starting, joined, stopping or stopped."""
        return self._state if self._own else "not started"

    @property
    def node(self) -> Node | None:
        return self._node if self._own else None

    @property
    def _own(self) -> bool:
        """Was it started here? If not, this is a forked child: the node is its parent's."""
        return self._pid == os.getpid()

    @property
    def now(self) -> float:
        """On the boot clock; 0 before the first start."""
        return 0.0 if self.subject is None else self.subject.around.clock.monotonic()

    @property
    def runs(self) -> bool:
        """Does Tenure's loop have something to do?"""
        return self._beating is not None and self._own

    @property
    def failing(self) -> dict[str, float]:
        """For how many seconds the calls to a part have failed: `leases`, `store`. Parts that
        answer, or that nobody has asked, are not in it."""
        now = self.now
        return {part: now - since for part, (since, _) in dict(self._failing).items()}

    def _clock(self) -> float:
        return self.now

    def _beat(self) -> None:
        self.beat_at = self.now
        self._beating = asyncio.get_running_loop().call_later(BEAT_EVERY, self._beat)

    def _staged(self, fact: Fact) -> None:
        if isinstance(fact, StartStage):
            self.stage = fact.stage

    def _called(self, call: Call) -> None:
        part = LEASES if call.part == LEASES else STORE
        since, failed = self._failing.get(part, (self.now, ""))
        if not call.answered:
            self._failing[part] = since, failed if failed in STEADY else call.method
        elif failed and (failed not in STEADY or failed == call.method):
            del self._failing[part]


def attached(observers: Observers, kind: type[O]) -> O | None:
    """The observer of this kind, if the scheduler has one."""
    return next((each for each in observers.all if isinstance(each, kind)), None)


def watch(observers: Observers) -> Watch:
    """The watch of this scheduler: there is one, whoever asks for it first."""
    found = attached(observers, Watch)
    if found is None:
        found = Watch()
        observers.all.insert(0, found)
    return found
