"""What the tests of the services share: a store that fails on demand, and a record of facts.

The store is the memory backend, never a mock: `Faulty` only stands between it and the service.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from tenure.backends.base import Stores
from tenure.errors import StoreUnavailable
from tenure.facts import Fact, Facts
from tenure.model import Fence, Grant, Holder
from tenure.node.keeper import Held
from tenure.node.rollout import Rollout
from tenure.node.service import Surroundings
from tenure.process.clock import Clock, SystemClock
from tenure.schedules.declarations import collect
from tenure.settings import Settings
from tenure.tasks.registry import Tasks

SETTINGS = Settings(ttl=10.0, heartbeat=2.0, margin=0.5, poll=1.0, hint_every=0.1)


def holder(name: str) -> Holder:
    return Holder(name, host="host", pid=1)


class Faulty:
    """A store whose calls can be refused, answered into the void, or slow."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.calls: Counter[str] = Counter()
        self.down: set[str] = set()
        """These do nothing and fail."""
        self.deaf: set[str] = set()
        """These are done, and the reply is lost."""
        self.before: dict[str, Callable[[], Any]] = {}
        """What happens between the call and the deed."""
        self.after: dict[str, Callable[[], Any]] = {}
        """What happens between the deed and the reply."""
        self.answers: dict[str, Any] = {}
        """What is answered instead of the truth."""

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            if name in self.down or "*" in self.down:
                raise StoreUnavailable(f"{name}: no connection")
            if name in self.before:
                await _awaited(self.before[name]())
            answer = await method(*args, **kwargs)
            if name in self.after:
                await _awaited(self.after[name]())
            if name in self.deaf:
                raise StoreUnavailable(f"{name}: the reply was lost")
            return self.answers.get(name, answer)

        return call


async def _awaited(value: Any) -> None:
    if hasattr(value, "__await__"):
        await value


def faulty(store: Any) -> Any:
    """A `Faulty`, to be given where a store is wanted."""
    return Faulty(store)


def listening() -> tuple[Facts, list[Fact]]:
    facts, told = Facts(), list[Fact]()
    facts.on("*", told.append)
    return facts, told


def names(told: list[Fact]) -> list[str]:
    return [fact.name for fact in told]


class Office:
    """A mandate that tests give and take."""

    def __init__(self, leading: Fence | None = None) -> None:
        self.leading = leading
        self.steady = float("inf")
        self.refused: list[Fence] = []
        """The fences under which a write was refused."""

    def deposed(self, fence: Fence) -> None:
        self.refused.append(fence)


def rollout(backend: Any, tasks: Tasks, app: str = "default") -> Rollout:
    """Of a node that declares these tasks."""
    return Rollout(
        collect(tasks, SETTINGS, app),
        Stores.of(backend),
        lambda: "node",
        Surroundings(SystemClock(), Facts(), SETTINGS),
    )


async def held(leases: Any, clock: Clock, name: str = "job", who: str = "ann") -> Held:
    """Acquire a lease as a service does: the attempt's begin is what counts."""
    begun = clock.monotonic()
    grant = await leases.acquire(name, holder(who), SETTINGS.ttl)
    assert isinstance(grant, Grant)
    return Held(grant, clock, begun, heartbeat=SETTINGS.heartbeat, margin=SETTINGS.margin)
