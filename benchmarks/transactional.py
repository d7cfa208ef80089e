"""Transactional: how many transactional tasks end in a second, that do nothing, and that
write one row, in one transaction with the result of their run? Beside them, in turns: bare
transactions that write one row, over as many connections.

The runs wait when their node begins, one with default settings and in a process of its own: it is
timed from the first that starts to the last that has ended. The bare transactions are made by as
many threads as there are connections, in a process of their own too.

    python -m benchmarks.transactional OPTIONS      such a process, started from here
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from benchmarks.cluster import PATIENCE, ROOT
from benchmarks.figures import Figure, Say
from benchmarks.stores import Store
from tenure import NewSchedule, Scheduler, Settings, at
from tenure.facts import Fact

LEAST = 50.0
"""Per cent of the bare transactions."""


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    count, rounds = (200, 1) if quick else (5_000, 5)
    found: dict[str, list[float]] = {"nothing": [], "writing": [], "bare": []}
    for number in range(1, rounds + 1):
        for what, rates in found.items():
            with store.fresh() as url:
                rates.append(_measure(what, url, count))
        nothing, writing, bare = (rates[-1] for rates in found.values())
        told = f"{nothing:,.0f} a second that do nothing, {writing:,.0f} that write"
        say(f"{number} of {rounds}: {told}, bare {bare:,.0f}")
    lines = connections("sqlite" if store.name == "sqlite" else "postgres")
    bare_ones = found.pop("bare")
    names = {"nothing": "tasks that do nothing", "writing": "tasks that write a row"}
    figures = [Figure(f"transactional: bare, {lines} connections", "/s", bare_ones)]
    for what, rates in found.items():
        title = f"transactional: {names[what]}"
        shares = [100 * mine / least for mine, least in zip(rates, bare_ones, strict=True)]
        target = LEAST if what == "nothing" else None
        figures += [
            Figure(title, "/s", rates),
            Figure(f"{title} / bare", "%", shares, target, "median", least=True),
        ]
    return figures


def connections(store: str) -> int:
    """How many a node lends at a time, by default."""
    return 1 if store == "sqlite" else Settings().lent


def _measure(what: str, url: str, count: int) -> float:
    """How many a second."""
    options = json.dumps({"what": what, "url": url, "count": count})
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.transactional", options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=2 * PATIENCE,
    )
    return count / float(done.stdout.splitlines()[-1])


def measure(what: str, url: str, count: int) -> float:
    """Seconds."""
    line = _connect(url)
    line.execute("CREATE TABLE IF NOT EXISTS bare_row (n integer)")
    line.commit()
    line.close()
    return bare(url, count) if what == "bare" else tasks(url, count, what)


def nothing(connection: Any) -> None: ...


def writing(connection: Any) -> None:
    connection.execute("INSERT INTO bare_row VALUES (1)")


def tasks(url: str, count: int, what: str) -> float:
    work: Callable[[Any], None] = {"nothing": nothing, "writing": writing}[what]
    leader = Scheduler(url, concurrency=0)
    leader.task(name="work", transactional=True)(work)
    with leader:
        due = datetime.now(UTC) + timedelta(seconds=1 + count / 1_500)
        leader.add_many([NewSchedule(f"once-{n:05}", at(due), task="work") for n in range(count)])
        deadline = time.monotonic() + PATIENCE
        while len(leader.runs(state="waiting", limit=count)) < count:
            assert time.monotonic() < deadline, "not all were fired"
            time.sleep(0.2)
    scheduler = Scheduler(url)
    scheduler.task(name="work", transactional=True)(work)
    done, times = threading.Event(), [0.0, 0.0]
    ended = 0

    def started(_: Fact) -> None:
        times[0] = times[0] or time.monotonic()

    def succeeded(_: Fact) -> None:
        nonlocal ended
        ended += 1
        if ended == count:
            times[1] = time.monotonic()
            done.set()

    scheduler.on("run.started", started)
    scheduler.on("run.succeeded", succeeded)
    with scheduler:
        assert done.wait(PATIENCE)
    return times[1] - times[0]


def bare(url: str, count: int) -> float:
    number = connections(url.partition(":")[0])
    lines = [_connect(url) for _ in range(number)]
    begun = time.monotonic()
    threads = [threading.Thread(target=_write, args=(line, count // number)) for line in lines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - begun
    for line in lines:
        line.close()
    return took * count / (count // number * number)


def _connect(url: str) -> Any:
    if not url.startswith("sqlite"):
        return psycopg.connect(url)
    line = sqlite3.connect(url.removeprefix("sqlite:///"), check_same_thread=False)
    line.execute("PRAGMA synchronous = FULL")
    return line


def _write(line: Any, count: int) -> None:
    for number in range(count):
        line.execute(f"INSERT INTO bare_row VALUES ({number})")
        line.commit()


if __name__ == "__main__":
    print(measure(**json.loads(sys.argv[1])))
