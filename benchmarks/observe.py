"""Observe: what health, metrics and a scrape each second cost a node that is busy.

10,000 schedules are due at the same instant, again and again. How many a second are fired by a node
that only schedules, and how many are executed and on record, by a node with default settings? Each
in a process of its own: unobserved, and observed while another process scrapes it. Both in turns,
and the share of each pair counts: so what the machine does meanwhile counts for both. Beside it,
what the node takes of the processor. There the least of each kind counts, since whatever else uses
the machine only adds to it. All of it takes about nine minutes.

    python -m benchmarks.observe OPTIONS      such a node, started from here
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import time
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
BURSTS = {"fired": 12, "executed": 4}
"""How often all are due: once is over in less than a second, in which much may happen."""
GAP = {"fired": 1, "executed": 2}
"""How many seconds are between two bursts: by then the first is over."""
SCRAPE = """
import sys, time, urllib.request
while True:
    begun = time.monotonic()
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/metrics", timeout=5).read()
    except OSError:
        pass
    time.sleep(max(0, 1 - (time.monotonic() - begun)))
"""


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    count, rounds = (200, 1) if quick else (10_000, 8)
    figures: list[Figure] = []
    for kind in ("fired", "executed"):
        off: list[tuple[float, float]] = []
        on: list[tuple[float, float]] = []
        bursts = 1 if quick else BURSTS[kind]
        for number in range(1, rounds + 1):
            for observed in (False, True) if number % 2 else (True, False):
                with store.fresh() as url:
                    (on if observed else off).append(_measure(url, count, kind, observed, bursts))
            speeds = f"{off[-1][0]:,.0f} a second, observed {on[-1][0]:,.0f}"
            say(f"{number} of {rounds}, {kind}: {speeds}")
        pairs = [100 * mine[0] / plain[0] for mine, plain in zip(on, off, strict=True)]
        usage = 100 * min(used for _, used in on) / min(used for _, used in off)
        speed = statistics.median(pairs)
        say(f"{kind}: observed {speed:.1f} % of the speed, {usage:.1f} % of the processor time")
        figures += [
            Figure(f"observe: {kind}, unobserved", "/s", [speed for speed, _ in off]),
            Figure(f"observe: {kind}, observed", "/s", [speed for speed, _ in on]),
            Figure(f"observe: {kind}, processor time", "%", [usage], MOST),
            Figure(f"observe: {kind}, share", "%", pairs, LEAST, "median", least=True),
        ]
    return figures


def _measure(url: str, count: int, kind: str, observed: bool, bursts: int) -> tuple[float, float]:
    """How many a second, and seconds of the processor."""
    port = free_port() if observed else None
    options = json.dumps({"url": url, "count": count, "kind": kind, "port": port, "often": bursts})
    scraper = port and subprocess.Popen([sys.executable, "-c", SCRAPE, str(port)])
    try:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.observe", options],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=2 * PATIENCE,
        )
    finally:
        if scraper and port:
            scraper.kill()
            scraper.wait()
            release_port(port)
    took, used = json.loads(done.stdout.splitlines()[-1])
    return bursts * count / took, used


def work() -> None: ...


def measure(url: str, count: int, kind: str, port: int | None, often: int) -> tuple[float, float]:
    """Seconds from due until the last is fired, or its result recorded, of all bursts together; and
    those that the processor worked for it."""
    given: dict[str, Any] = {} if port is None else {"health": f"127.0.0.1:{port}"}
    scheduler = Scheduler(url, concurrency=0 if kind == "fired" else 20, **given)
    scheduler.task(work)
    # When all have been added, and the node has been quiet for a while.
    due = datetime.now(UTC) + timedelta(seconds=2 + count / 2_500)
    bursts = [due + timedelta(seconds=n * GAP[kind]) for n in range(often)]
    done, ended, took = threading.Event(), 0, 0.0

    def recorded(fact: Fact) -> None:
        nonlocal ended, took
        ended += fact.fired if isinstance(fact, Ticked) else 1
        if ended % count == 0:
            took += time.time() - bursts[ended // count - 1].timestamp()
        if ended == count * len(bursts):
            done.set()

    scheduler.on("tick.fired" if kind == "fired" else "run.succeeded", recorded)
    with scheduler:
        each = every(seconds=GAP[kind], start=due, end=bursts[-1])
        options: dict[str, Any] = {"task": work, "overlap": "allow", "catch_up": "all"}
        scheduler.add_many([NewSchedule(f"{n:05}", each, **options) for n in range(count)])
        assert datetime.now(UTC) < due, "this machine is too slow, or too busy"
        leave_out_what_stays()  # as run() does: a full collection would hide what is measured
        time.sleep(max(0.0, due.timestamp() - time.time() - 0.1))
        used = time.process_time()
        assert done.wait(PATIENCE)
        return took, time.process_time() - used


if __name__ == "__main__":
    print(json.dumps(measure(**json.loads(sys.argv[1]))))
