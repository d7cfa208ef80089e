"""Observers: what watches a scheduler's node and decides nothing. `tenure.observe` has them.

They are called on Tenure's loop, so none of them may block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tenure.backends.base import LeaseBackend, Stores
from tenure.node.node import Node
from tenure.node.service import Surroundings
from tenure.tasks.registry import Tasks


@dataclass(frozen=True, slots=True)
class Subject:
    """What is observed, from the beginning of a start."""

    around: Surroundings
    namespace: str
    app: str
    tasks: Tasks
    alone: bool
    """Does this process only run the node, by `run()` or `tenure run`?"""


class Observer(Protocol):
    """Follows one start after the other, each to its end."""

    def starting(self, subject: Subject) -> None:
        """A start begins: no store is open yet. What this raises ends the start."""
        ...

    def stores(self, stores: Stores) -> Stores:
        """What the node is to work with: the same, or with something in between that listens."""
        ...

    def joined(self, node: Node, backends: Sequence[LeaseBackend]) -> None:
        """The services of the node run, on these: its store, and that of its leases if that is
        another."""
        ...

    async def leaving(self) -> None:
        """The node is about to stop, or the start has failed."""
        ...

    def stopped(self) -> None:
        """Everything has ended. Called once for each `starting`."""
        ...


class Observers:
    """Those of one scheduler."""

    def __init__(self) -> None:
        self.all: list[Observer] = []
        self._started: list[Observer] = []

    def starting(self, subject: Subject) -> None:
        for observer in self.all:
            self._started.append(observer)
            observer.starting(subject)

    def stores(self, stores: Stores) -> Stores:
        for observer in self._started:
            stores = observer.stores(stores)
        return stores

    def joined(self, node: Node, backends: Sequence[LeaseBackend]) -> None:
        for observer in self._started:
            observer.joined(node, backends)

    async def leaving(self) -> None:
        for observer in self._started:
            await observer.leaving()

    def stopped(self) -> None:
        while self._started:
            self._started.pop().stopped()

    def forget(self) -> None:
        """In a forked child: what was started belongs to the parent."""
        self._started.clear()
