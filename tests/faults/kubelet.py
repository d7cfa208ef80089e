"""What Kubernetes does with the probes of a node, on this machine: asks again and again, and
restarts a node that has failed its liveness probe a few times in a row."""

from __future__ import annotations

import http.client
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

from tests.faults.support import Program

PERIOD = 0.2
TIMEOUT = 2.0
FAILURES = 3
"""In a row. The defaults of Kubernetes are 10 s, 1 s and 3."""
GRACE = 0.5


@dataclass(slots=True)
class Container:
    """One node, and what its probes have said."""

    port: int
    start: Callable[[], Program]
    program: Program = field(init=False)
    restarts: int = 0
    ready: bool = False
    asked: int = 0
    """How often the liveness probe was asked, all told."""

    def __post_init__(self) -> None:
        self.program = self.start()


class Kubelet:
    """Has a thread for each container, as the real one has."""

    def __init__(self, **containers: Container) -> None:
        self.containers = containers
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch, args=(each,), daemon=True)
            for each in containers.values()
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)

    @property
    def restarts(self) -> dict[str, int]:
        return {who: each.restarts for who, each in self.containers.items()}

    @property
    def all_ready(self) -> bool:
        return all(each.ready for each in self.containers.values())

    def _watch(self, container: Container) -> None:
        started, dead, unready = False, 0, 0
        while not self._over.wait(PERIOD):
            alive = _passes(container.port, "/healthz")
            ready = alive and _passes(container.port, "/readyz")
            container.asked += 1
            started = started or alive  # what a startupProbe waits for
            dead = 0 if alive or not started else dead + 1
            unready = 0 if ready else unready + 1
            container.ready = ready or (container.ready and unready < FAILURES)
            if dead == FAILURES:
                _end(container.program)
                container.ready = False
                container.program = container.start()
                container.restarts += 1
                started, dead = False, 0


def _end(program: Program) -> None:
    """As a pod ends: politely, and if that takes too long, at once."""
    program.signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        program.process.wait(GRACE)
    if program.running:
        program.kill()


def _passes(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    try:
        connection.request("GET", path)
        return 200 <= connection.getresponse().status < 400
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
