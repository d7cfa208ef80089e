"""Handover: the leader is asked to stop (SIGTERM); how long until its successor is in office?

From the release, as the history of the lease has it, and from the signal to the successor's first
firing. No occurrence may be lost or put off: each must have been fired, none missed or skipped.
"""

from __future__ import annotations

import asyncio
import random
import time

from benchmarks.cluster import Cluster, account, add_schedules
from benchmarks.figures import Figure, Say
from benchmarks.stores import Place, Store, lease_backend
from tenure.node.node import LEADER

SCHEDULES, INTERVAL = 20, 0.5


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    stops = 1 if quick else 20
    chance = random.Random(2)
    offices: dict[int, float] = {}
    firing: list[float] = []
    with store.place() as place:
        with Cluster(place, apart=store.apart) as cluster:
            cluster.start(2 if quick else 3)
            add_schedules(place.url, SCHEDULES, INTERVAL, spread=True)
            for number in range(1, stops + 1):
                leader = cluster.leader()
                time.sleep(chance.uniform(0.3, 0.5 if quick else 1.5))
                cluster.complete()
                signalled = cluster.terminate(leader.pid)
                successor = cluster.successor(leader.term)
                fired = cluster.first_firing(successor.term)
                offices[leader.term] = successor.at
                firing.append(fired.at - signalled)
                say(f"stop {number} of {stops}: firing again after {firing[-1] * 1000:.0f} ms")
                cluster.ended(leader.pid)
                if number < stops:
                    cluster.join()
            released = asyncio.run(_releases(place, list(offices)))
            cluster.stop()
        total = account(place.url, INTERVAL)
    gaps = [(offices[term] - released[term]) * 1000 for term in offices]
    lost = total.unaccounted + total.missed + total.skipped
    return [
        Figure("handover: release to successor in office", "ms", gaps, target=100),
        Figure("handover: SIGTERM to successor's first firing", "ms", [f * 1000 for f in firing]),
        Figure("handover: occurrences lost", "", [lost], target=0),
    ]


async def _releases(place: Place, terms: list[int]) -> dict[int, float]:
    """When these terms ended."""
    store = lease_backend(place)
    await store.open(migrate=False)
    try:
        history = await store.leases.history(LEADER, limit=10 * len(terms))
    finally:
        await store.close()
    return {
        line.term: line.ended_at.timestamp()
        for line in history
        if line.term in terms and line.ended_at is not None and line.end == "released"
    }
