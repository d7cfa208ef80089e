"""The way between a node and the store, and all that can happen on it.

A call is a request that travels, an operation that the store executes at one instant, and a reply
that travels back. Each of the three can be delayed, lost or refused on its own, so a node may see a
timeout for something that happened, that did not happen, or that happens seconds later.

A request may be *embedded*: executed by the node's own process, as with SQLite. A stopped process
holds it, and a dead one takes it along. Otherwise a server executes it, whatever became of the
client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, cast

from tenure.backends.base import (
    AuditStore,
    EditionStore,
    EventStore,
    Joined,
    LeaseStore,
    Now,
    Office,
    RelayStore,
    RunStore,
    ScheduleStore,
    SummaryStore,
    Wakeups,
)
from tenure.errors import StoreUnavailable
from tenure.testing.simulation.history import ASKS, NETWORK, Call, History
from tenure.testing.simulation.loop import Process, SimulationLoop
from tenure.testing.simulation.store import Crashed, SimulatedStore

FASTEST, USUAL = 0.0002, 0.004
LATEST = 3.0
"""How late an operation may be executed after its caller gave up."""


@dataclass(frozen=True, slots=True)
class Weather:
    """How likely each mishap is, for each call."""

    slow_request: float = 0.0
    slow_reply: float = 0.0
    lost_request: float = 0.0
    lost_reply: float = 0.0
    late: float = 0.0
    refused: float = 0.0
    broken: float = 0.0
    """Executed, and answered with an error."""
    lost_wakeup: float = 0.0


CALM = Weather()
_MISHAPS = (
    "slow_request",
    "slow_reply",
    "lost_request",
    "lost_reply",
    "late",
    "refused",
    "broken",
)


class Link:
    """One client's connection."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.cut: str | None = None
        """None, or "refused", "requests" or "replies": what the partition does."""
        self.fading = False
        """Replies are slow: what often comes before a partition."""
        self.dies_at: int | None = None
        """Before which statement of its next transaction its process dies."""

    @property
    def name(self) -> str:
        return self.process.name


class _Request:
    __slots__ = ("answer", "args", "embedded", "fate", "kwargs", "link", "op", "part")

    def __init__(
        self,
        link: Link,
        part: str,
        op: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        answer: asyncio.Future[Any],
    ) -> None:
        self.link = link
        self.part = part
        self.op = op
        self.args = args
        self.kwargs = kwargs
        self.fate = ""
        self.embedded = False
        self.answer = answer


class Network:
    """Carries every call of every node."""

    def __init__(
        self,
        loop: SimulationLoop,
        store: SimulatedStore,
        history: History,
        source: Random,
        embedded: float,
    ) -> None:
        self._loop = loop
        self._store = store
        self._history = history
        self._random = source.random
        self._uniform = source.uniform
        self._embedded = embedded
        self._mishaps: list[tuple[float, str]] = []
        self.weather = CALM
        self.outage: str | None = None
        """As `Link.cut`, for everybody."""
        self.trap: Callable[[Link, str, str], None] | None = None
        """Called with the link, the operation and "before" or "after" its execution."""

    def set_weather(self, weather: Weather) -> None:
        self.weather = weather
        self._mishaps, upto = [], 0.0
        for name in _MISHAPS:
            upto += getattr(weather, name)
            self._mishaps.append((upto, name))

    def leases(self, link: Link) -> LeaseStore:
        return cast(LeaseStore, _Proxy(self, link, "leases"))

    def office(self, link: Link) -> Office:
        return cast(Office, _Proxy(self, link, "office"))

    def schedules(self, link: Link) -> ScheduleStore:
        return cast(ScheduleStore, _Proxy(self, link, "schedules"))

    def editions(self, link: Link) -> EditionStore:
        return cast(EditionStore, _Proxy(self, link, "editions"))

    def runs(self, link: Link) -> RunStore:
        return cast(RunStore, _Proxy(self, link, "runs"))

    def events(self, link: Link) -> EventStore:
        return cast(EventStore, _Proxy(self, link, "events"))

    def relays(self, link: Link) -> RelayStore:
        return cast(RelayStore, _Proxy(self, link, "relays"))

    def audit(self, link: Link) -> AuditStore:
        return cast(AuditStore, _Proxy(self, link, "audit"))

    def summaries(self, link: Link) -> SummaryStore:
        return cast(SummaryStore, _Proxy(self, link, "summaries"))

    def now(self, link: Link) -> Now:
        return cast(Now, _Proxy(self, link, "").now)

    def joined(self, link: Link) -> Joined:
        parts = self.schedules(link), self.runs(link), self.now(link), _confirm, self.events(link)
        return Joined(*parts)

    def wakeups(self, link: Link) -> Wakeups:
        return _Wakeups(self, link)

    def call(
        self, link: Link, part: str, op: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> asyncio.Future[Any]:
        request = _Request(link, part, op, args, kwargs, self._loop.create_future())
        if op == "claim" and args[2]:
            # Whether its node may is decided when it asks, however late that comes to the store.
            self._store.observe()
            self._history.add(self._loop.now, link.name, NETWORK, ASKS, args[0])
        self._send(request)
        return request.answer

    def subscribe(self, link: Link, topic: str, callback: Callable[[], None]) -> Callable[[], None]:
        backend = self._store.medium.of(link.process)
        return backend.wakeups.subscribe(topic, lambda: self.wake(link, callback))

    def wake(self, link: Link, callback: Callable[[], None]) -> None:
        """Hints travel too, and get lost."""
        if self.outage or link.cut or self._random() < self.weather.lost_wakeup:
            return
        self._loop.after(self._usual(), callback, of=link.process)

    def _send(self, request: _Request) -> None:
        link, roll = request.link, self._random()
        cut = self.outage or link.cut
        if self._mishaps and roll < self._mishaps[-1][0]:
            request.fate = next(name for upto, name in self._mishaps if roll < upto)
        elif link.fading:
            request.fate = "slow_reply"
        if cut == "refused":
            request.fate = "refused"
        elif cut == "requests":
            request.fate = "lost_request"
        if request.fate == "refused":
            error = StoreUnavailable("the store cannot be reached")
            self._loop.after(self._usual(), self._deliver, request, None, error)
        elif request.fate == "lost_request":
            self._tell(request)
        else:
            request.embedded = self._random() < self._embedded
            delay = self._usual() if roll > 0.5 else 0.0
            if request.fate == "slow_request":
                delay = self._uniform(0.02, 0.8)
            elif request.fate == "late":
                left = self._history.quiet_from - self._loop.now
                delay = max(0.0, min(self._uniform(0.5, LATEST), left))
            if delay:
                of = link.process if request.embedded else None
                self._loop.after(delay, self._arrive, request, of=of)
            else:
                self._arrive(request)

    def _arrive(self, request: _Request) -> None:
        link = request.link
        if self.trap is not None:
            self.trap(link, request.op, "before")
            if request.embedded and (link.process.dead or link.process.stopped):
                # Caught between sending and execution: it waits with its process, or dies with it.
                self._loop.after(0.0, self._execute, request, of=link.process)
                return
        self._execute(request)

    def _execute(self, request: _Request) -> None:
        backend = self._store.medium.of(request.link.process)
        store = getattr(backend, request.part) if request.part else backend
        operation = getattr(store, request.op)(*request.args, **request.kwargs)
        self._advance(request, operation, None)

    def _advance(self, request: _Request, operation: Any, _: object) -> None:
        """The stores of the simulation do all their work at one instant. A broken one in a test
        may wait in between; then it goes on from here."""
        result, error = None, None
        medium, link = self._store.medium, request.link
        if self.trap is not None or link.dies_at is not None:
            medium.watch = lambda number: self._within(link, request.op, number)
        try:
            waits_for = operation.send(None)
        except StopIteration as done:
            result = done.value
        except Crashed:
            return
        except Exception as raised:  # noqa: BLE001 - it is the answer
            error = raised
        else:
            waits_for._asyncio_future_blocking = False
            waits_for.add_done_callback(lambda done: self._advance(request, operation, done))
            return
        finally:
            medium.watch = None
        self._executed(request, result, error)

    def _within(self, link: Link, op: str, number: int) -> None:
        if self.trap is not None:
            self.trap(link, op, f"at statement {number} of")
        if number == link.dies_at:
            self._loop.kill(link.process)
        if link.process.dead:
            raise Crashed

    def _executed(self, request: _Request, result: Any, error: Exception | None) -> None:
        link, fate = request.link, request.fate
        now = self._store.clock.now()
        call = Call(request.op, request.args, request.kwargs, result, error, now)
        self._store.executed(link.name, call, fate)
        if self.trap is not None:
            self.trap(link, request.op, "after")
        if fate == "lost_reply":
            self._tell(request)
            return
        delay = self._usual()
        if fate == "broken":
            result, error = None, StoreUnavailable("the connection broke")
        elif fate == "slow_reply":
            delay = self._uniform(0.02, 0.8)
        self._loop.after(delay, self._deliver, request, result, error)

    def _deliver(self, request: _Request, result: Any, error: Exception | None) -> None:
        if request.answer.done():
            return
        if (self.outage or request.link.cut) == "replies":
            request.fate = "lost_reply"
            self._tell(request)
        elif error is not None:
            request.answer.set_exception(error)
        else:
            request.answer.set_result(result)

    def _usual(self) -> float:
        return FASTEST + (USUAL - FASTEST) * self._random()

    def _tell(self, request: _Request) -> None:
        self._history.add(
            self._loop.now, request.link.name, NETWORK, request.fate.replace("_", " "), request.op
        )


class _Proxy:
    """A part of the store, as one client reaches it. Every method becomes a call;
    `tenure.backends.base` says which there are."""

    def __init__(self, network: Network, link: Link, part: str) -> None:
        self._network = network
        self._link = link
        self._part = part

    def __getattr__(self, op: str) -> Any:
        network, link, part = self._network, self._link, self._part

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await network.call(link, part, op, args, kwargs)

        setattr(self, op, call)
        return call


class _Wakeups:
    def __init__(self, network: Network, link: Link) -> None:
        self._network = network
        self._link = link

    def subscribe(self, topic: str, callback: Callable[[], None]) -> Callable[[], None]:
        return self._network.subscribe(self._link, topic, callback)


async def _confirm(run: int, claim: int, node: str) -> bool:
    raise NotImplementedError("no user's transaction is simulated")
