"""Restart: a node that executes a run is killed with -9; how long until the run is begun again?

Three node processes with default settings (ttl 15 s), on one machine, so that the death of one can
be proven. Sometimes it is the leader that is killed, sometimes another.
"""

from __future__ import annotations

import random
import time

from benchmarks.cluster import Cluster, Event
from benchmarks.figures import Figure, Say
from benchmarks.node import HELD, hold, tasks
from benchmarks.stores import Store
from tenure import Scheduler


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    kills = 1 if quick else 20
    chance = random.Random(1)
    took: list[float] = []
    with store.place() as place, Cluster(place) as cluster:
        cluster.start(2 if quick else 3)
        scheduler = Scheduler(place.url, leases=place.leases)
        scheduler.include(tasks)
        try:
            for number in range(1, kills + 1):
                run_id = scheduler.enqueue(hold).id
                begun = cluster.wait(lambda e, r=run_id: _began(e, r, 1))  # type: ignore[misc]
                # Not always at the same moment of the leader's looks.
                time.sleep(chance.uniform(0.3, 0.5 if quick else 2.5))
                cluster.complete()
                killed = cluster.kill(begun.pid)
                again = cluster.wait(lambda e, r=run_id: _began(e, r, 2))  # type: ignore[misc]
                took.append(again.at - killed)
                say(f"kill {number} of {kills}: begun again after {took[-1]:.3f} s")
                if number < kills:
                    cluster.join()
        finally:
            scheduler.stop()
        cluster.stop()
    return [Figure("restart: kill -9 to its run begun again", "s", took, target=1.0)]


def _began(event: Event, run_id: int, attempt: int) -> bool:
    return event.fact == HELD and event.values == {"run": run_id, "attempt": attempt}
