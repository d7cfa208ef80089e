"""Takeover: the leader is killed with -9; how long until its successor has fired?

Three node processes with default settings (ttl 15 s). Something is due every 25 ms, so that the
figure is the takeover and not the interval. A firing counts when its transaction has committed.

On a server the nodes believe to be on machines of their own: nobody can see that the leader's
process is gone, only that its connection is.
"""

from __future__ import annotations

import random
import time

from benchmarks.cluster import Cluster, account, add_schedules
from benchmarks.figures import Figure, Say
from benchmarks.stores import Store

SCHEDULES, INTERVAL = 20, 0.5


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    kills = 1 if quick else 100
    chance = random.Random(1)
    office: list[float] = []
    firing: list[float] = []
    with store.place() as place:
        with Cluster(place, apart=store.apart) as cluster:
            cluster.start(2 if quick else 3)
            add_schedules(place.url, SCHEDULES, INTERVAL, spread=True)
            for number in range(1, kills + 1):
                leader = cluster.leader()
                # Not always at the same moment of its heartbeat, nor of the standbys' looks.
                time.sleep(chance.uniform(0.3, 0.5 if quick else 1.5))
                cluster.complete()
                killed = cluster.kill(leader.pid)
                successor = cluster.successor(leader.term)
                fired = cluster.first_firing(successor.term)
                office.append(successor.at - killed)
                firing.append(fired.at - killed)
                say(f"kill {number} of {kills}: firing again after {firing[-1]:.3f} s")
                if number < kills:
                    cluster.join()
            cluster.stop()
        total = account(place.url, INTERVAL)
    return [
        Figure("takeover: kill -9 to successor in office", "s", office),
        Figure("takeover: kill -9 to first firing", "s", firing, target=1.0),
        Figure("takeover: occurrences unaccounted for", "", [total.unaccounted], target=0),
    ]
