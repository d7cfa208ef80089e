"""Real node processes on one store, and what they tell."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any, Self

from benchmarks.node import tasks, work
from benchmarks.stores import Place, backend
from tenure import Scheduler, every
from tenure.model import OccurrenceState
from tests.support.proxy import Proxy

ROOT = Path(__file__).parent.parent
_machines = itertools.count(1)
PATIENCE = 60.0
"""No wait is longer, unless asked for: a cluster that does not do what it should is an error."""


@dataclass(frozen=True)
class Event:
    """Something that a node told, at the time when it did."""

    at: float
    pid: int
    fact: str
    values: dict[str, Any]

    @property
    def term(self) -> int:
        return int(self.values.get("term", 0))


class Cluster:
    """Node processes of which none outlives the block.

    `apart`: each believes to be on a machine of its own. `lines`: each has a line of its own to the
    server of the leases, which can be cut. `group`: so many nodes in each process.
    """

    def __init__(
        self,
        place: Place | str,
        *,
        ttl: float | None = None,
        apart: bool = False,
        lines: bool = False,
        group: int = 1,
        retention: float | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self._place = Place(place) if isinstance(place, str) else place
        given = {"ttl": ttl, "retention": retention}
        self._settings = {name: value for name, value in given.items() if value is not None}
        self._group = group
        self._patience = patience
        self._apart = apart
        self._with_lines = lines
        self._lines: dict[int, Proxy] = {}
        self._nodes: dict[int, subprocess.Popen[str]] = {}
        self._events: list[Event] = []
        self._told = threading.Condition()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for pid in list(self._nodes):
            self._nodes[pid].kill()
            self._forget(pid)

    def start(self, count: int = 1) -> None:
        """Start nodes, and wait until they take part."""
        for _ in range(count):
            self._spawn()
        self.complete()

    def complete(self) -> None:
        """Wait until all nodes take part."""
        for pid in list(self._nodes):
            self.wait(self._all_of(pid))

    def _all_of(self, pid: int) -> Callable[[Event], bool]:
        started = itertools.count(1)
        return lambda event: (
            event.pid == pid and event.fact == "node.started" and next(started) == self._group
        )

    def leader(self) -> Event:
        """Who took office last, and fires."""
        self.wait(lambda event: event.fact == "leader.took_office")
        with self._told:
            events = [event for event in self._events if event.fact == "leader.took_office"]
        newest = max(events, key=lambda event: event.term)
        self.first_firing(newest.term)
        return newest

    def successor(self, term: int) -> Event:
        """The next to take office after this term."""
        return self.wait(lambda e: e.fact == "leader.took_office" and e.term > term)

    def first_firing(self, term: int) -> Event:
        """The first firing that was committed under this term or a later one."""
        return self.wait(
            lambda e: e.fact == "tick.fired" and e.term >= term and e.values["fired"] > 0
        )

    def join(self) -> None:
        """Start a node, and do not wait for it yet: see `complete`."""
        self._spawn()

    def freeze(self, pid: int) -> float:
        """Stop it in its tracks; returns when, once all its threads stand still."""
        at = time.time()
        self._nodes[pid].send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        return at

    def cut_off(self, pid: int) -> float:
        """From now on all that it sends is lost, and all that is sent to it; returns when."""
        at = time.time()
        self._lines[pid].become("half-open")
        return at

    def kill(self, pid: int) -> float:
        """kill -9; returns when."""
        at = time.time()
        self._nodes[pid].kill()
        self._forget(pid)
        return at

    def terminate(self, pid: int) -> float:
        """Ask it to stop; returns when. It ends by itself: see `ended`."""
        at = time.time()
        self._nodes[pid].send_signal(signal.SIGTERM)
        return at

    def ended(self, pid: int) -> None:
        """Wait until it has, with all that it had to tell."""
        self._nodes[pid].wait(timeout=self._patience)
        self._forget(pid)

    def stop(self) -> list[Event]:
        """Stop all nodes politely; returns all that was told."""
        for pid in self._nodes:
            self.terminate(pid)
        for pid in list(self._nodes):
            self.ended(pid)
        with self._told:
            return list(self._events)

    def wait(self, wanted: Callable[[Event], bool]) -> Event:
        """The first such event, past or to come."""
        until = time.monotonic() + self._patience
        looked_at = 0
        with self._told:
            while True:
                for event in self._events[looked_at:]:
                    if wanted(event):
                        return event
                looked_at = len(self._events)
                if not self._told.wait(timeout=until - time.monotonic()):
                    last = [f"{e.pid} {e.fact}" for e in self._events[-5:]]
                    raise TimeoutError(
                        f"not told within {self._patience:g} s; the last events: {last}"
                    )

    def _spawn(self) -> int:
        place, line = self._place, None
        if self._with_lines and place.port is not None:
            line = Proxy(place.port)
            line.__enter__()
            place = place.through(line.port)
        options = {
            "url": place.url,
            "leases": place.leases,
            "settings": self._settings,
            "nodes": self._group,
            "machine": f"machine {next(_machines)}" if self._apart else None,
        }
        node = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.node", json.dumps(options)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert node.stdout is not None
        self._nodes[node.pid] = node
        if line is not None:
            self._lines[node.pid] = line
        threading.Thread(target=self._listen, args=(node.pid, node.stdout), daemon=True).start()
        return node.pid

    def _listen(self, pid: int, output: IO[str]) -> None:
        with output:
            for line in output:
                if not line.endswith("\n"):
                    break  # cut off by a kill
                told = json.loads(line)
                with self._told:
                    self._events.append(Event(told["at"], pid, told["fact"], told["values"]))
                    self._told.notify_all()
        with self._told:
            self._events.append(Event(time.time(), pid, "output.ended", {}))
            self._told.notify_all()

    def _forget(self, pid: int) -> None:
        node = self._nodes.pop(pid)
        node.wait(timeout=self._patience)
        self.wait(lambda event: event.pid == pid and event.fact == "output.ended")
        assert node.stdin is not None
        node.stdin.close()
        line = self._lines.pop(pid, None)
        if line is not None:
            line.__exit__(None, None, None)


def add_schedules(url: str, count: int, interval: float, spread: bool) -> None:
    """Schedules of the nodes' task: all due at the same instant, or evenly over the interval."""
    scheduler = Scheduler(url)
    scheduler.include(tasks)
    # The first is due when all have been added, so that nothing is late from the beginning.
    begin = datetime.now(UTC) + timedelta(seconds=0.3 + count * 0.01)
    try:
        for number in range(count):
            start = begin + timedelta(seconds=interval * number / count if spread else 0)
            trigger = every(seconds=interval, start=start)
            scheduler.add(f"bench-{number:03}", trigger, task=work, overlap="allow")
    finally:
        scheduler.stop()


@dataclass
class Account:
    """What became of all occurrences, as the store has it."""

    fired: int = 0
    missed: int = 0
    skipped: int = 0
    unaccounted: int = 0


def account(url: str, interval: float, begin: float = 0.0, end: float = math.inf) -> Account:
    """Walk through every schedule's occurrences: each must begin where the one before ended.

    Only those from `begin` up to `end` are counted.
    """
    step = timedelta(seconds=interval)

    async def read() -> Account:
        store, result = backend(url), Account()
        await store.open(migrate=False)
        try:
            for schedule in list((await store.schedules.find()).values()):
                rows = await store.schedules.occurrences(schedule.name, limit=1_000_000)
                due = None
                for row in sorted(rows, key=lambda row: row.nominal):
                    if not begin <= row.nominal.timestamp() < end:
                        continue
                    if due is not None and row.nominal != due:
                        result.unaccounted += round(abs((row.nominal - due) / step))
                    due = row.last + step
                    covered = round((row.last - row.nominal) / step) + 1
                    result.fired += row.state is OccurrenceState.FIRED
                    result.skipped += row.state is OccurrenceState.SKIPPED
                    result.missed += covered if row.state is OccurrenceState.MISSED else 0
        finally:
            await store.close()
        return result

    return asyncio.run(read())
