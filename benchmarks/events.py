"""Events: how many event schedules fire in a second, how many events does a consumer read, how many
are relayed to Kafka, and how soon after its commit is an event there?

Firing is measured as in `firing`, beside bare statements that write the same rows. A consumer reads
in a process of its own, and writes one row for each event in the transaction that moves its group
on. relaying.py has the rest.

    python -m benchmarks.events OPTIONS      such a process, started from here
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks import firing, relaying
from benchmarks.cluster import PATIENCE, ROOT
from benchmarks.figures import Figure, Say
from benchmarks.log import DATA, TOPIC, fill
from benchmarks.peers.workload import rules
from benchmarks.stores import Store
from tenure import Scheduler
from tenure.model import Content, ScheduleSpec

OF_BARE = {"postgres": 40.0}
"""Per cent of the bare statements' speed, as in `firing`."""
READ = 5_000.0
"""Events a second, in batches of the usual size."""
BATCHES = (100, 1_000)


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    return [
        *_firing(store, quick, say),
        *_reading(store, quick, say),
        *relaying.run(store, quick, say),
    ]


def _of_event(name: str, trigger: str) -> ScheduleSpec:
    return ScheduleSpec(name, trigger, "", event=Content(TOPIC, "Due", DATA, name))


def _firing(store: Store, quick: bool, say: Say) -> list[Figure]:
    rounds, looks, count = (1, 1, 200) if quick else (5, firing.LOOKS, 10_000)
    wanted = rules(count, 0.1)
    ours: list[float] = []
    bare: list[float] = []
    for number in range(1, rounds + 1):
        speeds = [
            (firing.ours(store, wanted, _of_event), firing.bare(store, wanted, _of_event))
            for _ in range(looks)
        ]
        ours.append(statistics.median(mine for mine, _ in speeds))
        bare.append(statistics.median(most for _, most in speeds))
        say(f"{number} of {rounds}: {ours[-1]:,.0f} events fired a second, {bare[-1]:,.0f} bare")
    shares = [100 * mine / most for mine, most in zip(ours, bare, strict=True)]
    share = "events: fired / bare statements"
    return [
        Figure(f"events: {count:,} event schedules fired", "/s", ours),
        Figure("events: fired by bare statements", "/s", bare),
        Figure(share, "%", shares, OF_BARE.get(store.name), "median", least=True),
    ]


def _reading(store: Store, quick: bool, say: Say) -> list[Figure]:
    rounds, count = (1, 500) if quick else (5, 20_000)
    speeds: dict[int, list[float]] = {size: [] for size in BATCHES}
    for number in range(1, rounds + 1):
        with store.fresh() as url:
            asyncio.run(fill(url, count))
            for size, found in speeds.items():
                found.append(count / _read_apart(url, count, size))
        said = ", ".join(f"{found[-1]:,.0f} in batches of {n:,}" for n, found in speeds.items())
        say(f"{number} of {rounds}: read a second: {said}")
    return [
        Figure(
            f"events: read by a consumer, batches of {size:,}",
            "/s",
            found,
            READ if size == BATCHES[0] else None,
            "median",
            least=True,
        )
        for size, found in speeds.items()
    ]


def _read_apart(url: str, count: int, size: int) -> float:
    options = json.dumps({"url": url, "count": count, "size": size})
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.events", options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    return float(done.stdout.splitlines()[-1])


def read(url: str, count: int, size: int) -> float:
    """Read so many, and say how many seconds that took."""
    scheduler = Scheduler(url)
    place = "%s" if url.startswith("postgres") else "?"
    insert = f"INSERT INTO read_{size} VALUES ({place}, {place})"
    seen = 0
    with scheduler.consumer(TOPIC, group=f"of {size}", limit=size, wait=10) as consumer:
        begun = time.monotonic()
        for batch in consumer:
            with batch.transaction() as connection:
                if not seen:
                    connection.execute(f"CREATE TABLE read_{size} (id text, data text)")
                _write(connection, insert, [(event.id, event.data) for event in batch])
            seen += len(batch)
            if seen == count:
                break
        took = time.monotonic() - begun
    scheduler.stop()
    assert seen == count
    return took


def _write(connection: Any, insert: str, rows: Sequence[tuple[str, str]]) -> None:
    connection.cursor().executemany(insert, rows)


if __name__ == "__main__":
    print(read(**json.loads(sys.argv[1])))
