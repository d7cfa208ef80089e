"""Weekend: 10,000 schedules of every minute, and nobody was there from Friday to Monday.

How long after the leader took office has each of them caught up (catch_up="latest": the last
occurrence is fired, the 3,700 before it are one line that says why they were not)? A whole node
does it, which executes the runs as well; its heartbeat must not suffer. With a ttl of 2 s, so that
there are heartbeats to be seen.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import pairwise

from benchmarks.cluster import Cluster, Event
from benchmarks.figures import Figure, Say
from benchmarks.stores import Store, backend
from tenure import cron, triggers
from tenure.model import Change, ScheduleSpec
from tenure.settings import Settings

AWAY = timedelta(hours=62)
TTL = 2.0
MOST_SECONDS = 10.0
MOST_HEARTBEATS = 1.5
"""A renewal that comes after more heartbeats than this was held up: as the keeper has it."""
LOOK_EVERY = 0.05


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    repetitions, count = (1, 100) if quick else (5, 10_000)
    took: list[float] = []
    gaps: list[float] = []
    for number in range(1, repetitions + 1):
        with store.fresh() as url:
            asyncio.run(_fill(url, count))
            with _renewals(url) as renewals:
                took.append(_catch_up(url, count))
        gaps.append(_longest(renewals) / Settings(ttl=TTL).renew_every)
        said = f"caught up after {took[-1]:.2f} s, at most {gaps[-1]:.2f} heartbeats apart"
        say(f"{number} of {repetitions}, {count:,} schedules: {said}")
    return [
        Figure(f"weekend: {count:,} schedules caught up", "s", took, MOST_SECONDS),
        Figure("weekend: longest time without a heartbeat / interval", "×", gaps, MOST_HEARTBEATS),
    ]


def _catch_up(url: str, count: int) -> float:
    fired = 0

    def done(event: Event) -> bool:
        nonlocal fired
        fired += event.values["fired"] if event.fact == "tick.fired" else 0
        return fired >= count

    with Cluster(url, ttl=TTL) as cluster:
        cluster.start()
        begun, ended = cluster.leader(), cluster.wait(done)
        time.sleep(TTL)  # while it executes what it has fired
        stopped = time.time()
        events = cluster.stop()
    left = [event.at for event in events if event.fact == "leader.left_office"]
    assert min(left, default=stopped) >= stopped, "the leader lost its office"
    return ended.at - begun.at


@contextmanager
def _renewals(url: str) -> Iterator[dict[str, set[datetime]]]:
    """When each lease was renewed, as the store has it; looked at meanwhile."""
    seen: dict[str, set[datetime]] = {}
    over = threading.Event()

    async def watch() -> None:
        place = backend(url)
        await place.open(migrate=False)
        try:
            while not over.is_set():
                for record in await place.leases.all():
                    if record.live and record.renewed_at is not None:
                        seen.setdefault(record.name, set()).add(record.renewed_at)
                await asyncio.sleep(LOOK_EVERY)
        finally:
            await place.close()

    watching = threading.Thread(target=lambda: asyncio.run(watch()))
    watching.start()
    try:
        yield seen
    finally:
        over.set()
        watching.join()


def _longest(renewals: dict[str, set[datetime]]) -> float:
    moments = [sorted(found) for found in renewals.values()]
    gaps = [after - before for m in moments for before, after in pairwise(m)]
    return max(gaps).total_seconds()


async def _fill(url: str, count: int) -> None:
    place = backend(url)
    await place.open()
    try:
        now = await place.now()
        trigger = cron("* * * * *").anchored(now)
        due = trigger.next(now - AWAY)
        text = triggers.dump(trigger)
        specs = [ScheduleSpec(f"minutely-{n:05}", text, "work", "{}") for n in range(count)]
        await place.schedules.change([Change(spec, due, due) for spec in specs])
    finally:
        await place.close()
