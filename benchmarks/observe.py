"""Observe: what health, metrics and scrapes cost a node that is busy.

10,000 schedules are due at the same instant, again and again. How many a second are fired by a node
that only schedules, and how many are executed and on record, by a node with default settings? And
how long does the processor work for that?

Two nodes take turns, burst by burst, in one process: one is unobserved, the other observed and
scraped once for each second in which it is busy. From one process to the next, on the same machine,
such figures differ by a tenth or more, which is more than what is looked for; within one process
there are neighbours to compare. If neither is observed, the second one takes about one per cent
longer than the first. So the observed one comes second in half of the processes only. What all
bursts of a process took gives its share; the median of several processes counts, each with stores
of its own. All of it takes about ten minutes.

    python -m benchmarks.observe OPTIONS      such a process, started from here
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.cluster import PATIENCE, ROOT
from benchmarks.figures import Figure, Say
from benchmarks.stores import Store
from tenure import NewSchedule, Scheduler, every
from tenure.facts import Fact, Ticked
from tenure.process.garbage import leave_out_what_stays
from tests.support.servers import free_port, release_port

LEAST, MOST = 97.0, 103.0
"""Per cent of the speed without, and of the processor's time."""
GAP = {"fired": 0.5, "executed": 1.5}
"""How many seconds are between two bursts: by then the first is over."""
SCRAPED = {"fired": 4, "executed": 2}
"""During each which of its bursts it is scraped: they last a quarter of a second at the most, or
three quarters."""
SCRAPE = """
import sys, urllib.request
for _ in sys.stdin:
    urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/metrics", timeout=5).read()
"""


@dataclass(frozen=True)
class Burst:
    took: float
    """From due until the last is fired, or its result recorded."""
    used: float
    """Seconds of the processor."""


@dataclass(frozen=True)
class Turns:
    """All bursts of a process together."""

    unobserved: Burst
    observed: Burst

    @property
    def speed(self) -> float:
        return 100 * self.unobserved.took / self.observed.took

    @property
    def used(self) -> float:
        return 100 * self.observed.used / self.unobserved.used


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    count, processes, pairs = (200, 1, 1) if quick else (10_000, 8, 12)
    figures: list[Figure] = []
    for kind in GAP:
        found: list[Turns] = []
        for number in range(1, processes + 1):
            with store.fresh() as one, store.fresh() as other:
                turned = number % 2 == 0
                found.append(_measure([one, other], count, kind, pairs, turned))
            last = found[-1]
            said = f"{last.speed:.1f} % of the speed, {last.used:.1f} % of the processor time"
            say(f"{number} of {processes}, {kind}: observed {said}")
        off = [pairs * count / each.unobserved.took for each in found]
        on = [pairs * count / each.observed.took for each in found]
        used, speeds = [each.used for each in found], [each.speed for each in found]
        figures += [
            Figure(f"observe: {kind}, unobserved", "/s", off),
            Figure(f"observe: {kind}, observed", "/s", on),
            Figure(f"observe: {kind}, processor time", "%", used, MOST, "median"),
            Figure(f"observe: {kind}, share", "%", speeds, LEAST, "median", least=True),
        ]
    return figures


def _measure(urls: list[str], count: int, kind: str, pairs: int, turned: bool) -> Turns:
    port = free_port()
    options: dict[str, Any] = {"urls": urls, "count": count, "kind": kind, "pairs": pairs}
    options |= {"port": port, "turned": turned}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.observe", json.dumps(options)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=2 * PATIENCE,
        )
    finally:
        release_port(port)
    off, on = json.loads(done.stdout.splitlines()[-1])
    return Turns(Burst(*off), Burst(*on))


def work() -> None: ...


class Node:
    """One of the two, which fires or executes a burst in each of its turns."""

    def __init__(self, url: str, count: int, kind: str, port: int | None) -> None:
        given: dict[str, Any] = {} if port is None else {"health": f"127.0.0.1:{port}"}
        self.scheduler = Scheduler(url, concurrency=0 if kind == "fired" else 20, **given)
        self.scheduler.task(work)
        self._count = count
        self._ended = 0
        self._over = threading.Semaphore(0)
        fact = "tick.fired" if kind == "fired" else "run.succeeded"
        self.scheduler.on(fact, self._recorded)

    def _recorded(self, fact: Fact) -> None:
        ended = fact.fired if isinstance(fact, Ticked) else 1
        self._ended += ended
        if ended and self._ended % self._count == 0:
            self._over.release()

    def add(self, first: datetime, last: datetime, gap: float) -> None:
        each = every(seconds=gap, start=first, end=last)
        options: dict[str, Any] = {"task": work, "overlap": "allow", "catch_up": "all"}
        new = [NewSchedule(f"{number:05}", each, **options) for number in range(self._count)]
        self.scheduler.add_many(new)

    def burst(self, due: datetime, begins: Callable[[], None]) -> Burst:
        begun = time.process_time()
        _sleep_until(due)
        begins()
        assert self._over.acquire(timeout=PATIENCE)
        return Burst(time.time() - due.timestamp(), time.process_time() - begun)


def _sleep_until(moment: datetime, before: float = 0.0) -> None:
    time.sleep(max(0.0, moment.timestamp() - before - time.time()))


def _nothing() -> None: ...


def measure(
    urls: Sequence[str], count: int, kind: str, pairs: int, port: int, *, turned: bool
) -> Turns:
    """`turned`: the first node is observed, not the second."""
    gap = GAP[kind]
    ports = (port, None) if turned else (None, port)
    nodes = [Node(url, count, kind, of) for url, of in zip(urls, ports, strict=True)]
    pairs += 1  # the first is not counted
    # When all have been added, and the nodes have been quiet for a while.
    due = datetime.now(UTC) + timedelta(seconds=3 + 2 * count / 2_500)
    bursts = [due + timedelta(seconds=number * gap) for number in range(2 * pairs)]
    command = [sys.executable, "-c", SCRAPE, str(port)]
    found: list[Burst] = []
    with (
        nodes[0].scheduler,
        nodes[1].scheduler,
        subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as scraper,
    ):
        told = scraper.stdin
        assert told is not None

        def scrape() -> None:
            told.write("\n")
            told.flush()

        with closing(told):
            for node, first, last in zip(nodes, bursts[:2], bursts[-2:], strict=True):
                node.add(first, last, 2 * gap)
            assert datetime.now(UTC) < due, "this machine is too slow, or too busy"
            leave_out_what_stays()  # as run() does: a full collection would hide what is measured
            for number, moment in enumerate(bursts):
                _sleep_until(moment, gap / 10)
                place = number % 2
                scraped = ports[place] is not None and number // 2 % SCRAPED[kind] == 0
                found.append(nodes[place].burst(moment, scrape if scraped else _nothing))
    of_first, of_second = _together(found[2::2]), _together(found[3::2])
    return Turns(of_second, of_first) if turned else Turns(of_first, of_second)


def _together(bursts: Sequence[Burst]) -> Burst:
    return Burst(sum(each.took for each in bursts), sum(each.used for each in bursts))


if __name__ == "__main__":
    turns = measure(**json.loads(sys.argv[1]))
    print(json.dumps([astuple(turns.unobserved), astuple(turns.observed)]))
