"""What the tests of observers share: a scheduler in memory, and a store that goes away."""

from __future__ import annotations

import http.client
import inspect
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from tenure import Scheduler
from tenure.backends.base import LeaseBackend, Stores
from tenure.errors import StoreUnavailable
from tenure.node.node import Node
from tenure.observe.calls import PARTS
from tenure.observe.server import HealthServer
from tenure.observe.watch import attached
from tenure.scheduler.observers import Subject

T = TypeVar("T")
PATIENCE = 60.0
ANYWHERE = "127.0.0.1:0"


def until(condition: Callable[[], T | None], what: str) -> T:
    deadline = time.monotonic() + PATIENCE
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.005)


def address(scheduler: Any) -> tuple[str, int]:
    server = attached(scheduler._runtime.observers, HealthServer)
    assert server is not None
    assert server.address is not None
    return server.address


def ask(scheduler: Any, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    """The status and the body."""
    connection = http.client.HTTPConnection(*address(scheduler), timeout=PATIENCE)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def status(scheduler: Any, path: str) -> int:
    return ask(scheduler, path)[0]


def reasons(scheduler: Any, path: str) -> list[str]:
    return list(json.loads(ask(scheduler, path)[1]).get("reasons", []))


def numbers(scheduler: Any) -> dict[str, float]:
    """What /metrics says, by name and labels."""
    code, text = ask(scheduler, "/metrics")
    assert code == 200
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


class Outage:
    """An observer that stands between a node and its store, and can cut it off."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.away = False
        scheduler._runtime.observers.all.insert(0, self)

    def starting(self, subject: Subject) -> None: ...

    def joined(self, node: Node, backends: Sequence[LeaseBackend]) -> None: ...

    async def leaving(self) -> None:
        self.away = False

    def stopped(self) -> None: ...

    def stores(self, stores: Stores) -> Stores:
        cut: dict[str, Any] = {part: _Cut(getattr(stores, part), self) for part in PARTS}
        return replace(stores, **cut)


class _Cut:
    def __init__(self, behind: Any, outage: Outage) -> None:
        self._behind, self._outage = behind, outage

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._behind, name)
        if not inspect.iscoroutinefunction(call):
            return call

        async def cut(*args: Any, **given: Any) -> Any:
            if self._outage.away:
                raise StoreUnavailable("the store is away")
            return await call(*args, **given)

        return cut
