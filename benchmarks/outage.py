"""Outages that nobody can tell from a slow leader: it is frozen (SIGSTOP), or its network swallows
everything. How long until a successor has fired? No hint helps here; the ttl decides.

Three node processes with a ttl of 2 s, something due every 25 ms. The one that was frozen or cut
off is killed when its successor has fired, and another takes its place.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from benchmarks.cluster import Cluster, account, add_schedules
from benchmarks.figures import Figure, Say
from benchmarks.stores import Place, Store

TTL = 2.0
SCHEDULES, INTERVAL = 20, 0.5
Fault = Callable[[Cluster, int, Place], float]
"""Does it to this process; returns when."""


def freeze(store: Store, quick: bool, say: Say) -> list[Figure]:
    def fault(cluster: Cluster, pid: int, place: Place) -> float:
        # Frozen inside a write to SQLite it would stop all writers: a stated limit, not measured.
        with store.no_write(place):
            return cluster.freeze(pid)

    return _run(store, quick, say, "frozen: SIGSTOP", fault)


def cut(store: Store, quick: bool, say: Say) -> list[Figure]:
    def fault(cluster: Cluster, pid: int, place: Place) -> float:
        return cluster.cut_off(pid)

    return _run(store, quick, say, "cut off: line swallows all", fault, lines=True)


def _run(
    store: Store, quick: bool, say: Say, title: str, fault: Fault, lines: bool = False
) -> list[Figure]:
    times = 1 if quick else 20
    chance = random.Random(3)
    firing: list[float] = []
    with store.place() as place:
        with Cluster(place, ttl=TTL, apart=store.apart, lines=lines) as cluster:
            cluster.start(2 if quick else 3)
            add_schedules(place.url, SCHEDULES, INTERVAL, spread=True)
            for number in range(1, times + 1):
                leader = cluster.leader()
                # Not always at the same moment of its heartbeat.
                time.sleep(chance.uniform(0.3, 0.5 if quick else 0.9))
                cluster.complete()
                begun = fault(cluster, leader.pid, place)
                successor = cluster.successor(leader.term)
                fired = cluster.first_firing(successor.term)
                firing.append(fired.at - begun)
                say(f"{number} of {times}: firing again after {firing[-1]:.3f} s")
                cluster.kill(leader.pid)
                if number < times:
                    cluster.join()
            cluster.stop()
        total = account(place.url, INTERVAL)
    return [
        Figure(f"{title} to first firing, ttl {TTL:g} s", "s", firing, target=TTL + 1),
        Figure(
            f"{title.partition(':')[0]}: occurrences unaccounted for", "", [total.unaccounted], 0
        ),
    ]
