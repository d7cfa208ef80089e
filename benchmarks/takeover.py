"""Takeover: the leader is killed with -9; how long until its successor has fired?

Three node processes with default settings (ttl 15 s). Something is due every 25 ms, so that the
figure is the takeover and not the interval. A firing counts when its transaction has committed.

On a server the nodes believe to be on machines of their own: nobody can see that the leader's
process is gone, only that its connection is. PostgreSQL also tells whether the leader is inside a
firing transaction. Its successor must wait until the server has undone that, so such kills are
counted apart: 100 kills at moments when it was outside, 50 when it was inside, as the server said
right before.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from benchmarks.cluster import PATIENCE, Cluster, account, add_schedules
from benchmarks.figures import Figure, Say
from benchmarks.stores import Store

SCHEDULES, INTERVAL = 20, 0.5
CHANCE = random.Random(1)


@dataclass(frozen=True)
class Kill:
    """Seconds after it."""

    inside: bool
    """A firing transaction."""
    office: float
    firing: float


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    kills, aimed = (1, 1) if quick else (100, 50)
    with store.place() as place:
        with Cluster(place, apart=store.apart) as cluster:
            cluster.start(2 if quick else 3)
            add_schedules(place.url, SCHEDULES, INTERVAL, spread=True)
            with store.inside(place) if store.takeover_inside else nullcontext() as inside:
                found = [_kill(cluster, quick, inside, False, say) for _ in range(kills)]
                if inside is not None:
                    found += [_kill(cluster, quick, inside, True, say) for _ in range(aimed)]
            cluster.complete()
            cluster.stop()
        total = account(place.url, INTERVAL)
    return _figures(found, store, total.unaccounted)


def _figures(found: Sequence[Kill], store: Store, unaccounted: int) -> list[Figure]:
    figures = []
    for inside in (False, True):
        some = [kill for kill in found if kill.inside is inside]
        if some:
            what = f"takeover: kill -9{' inside a firing transaction' if inside else ''}"
            office, firing = [kill.office for kill in some], [kill.firing for kill in some]
            target = store.takeover_inside if inside else store.takeover
            figures.append(Figure(f"{what} to successor in office", "s", office))
            figures.append(Figure(f"{what} to first firing", "s", firing, target))
    return [*figures, Figure("takeover: occurrences unaccounted for", "", [unaccounted], target=0)]


def _kill(
    cluster: Cluster, quick: bool, inside: Callable[[int], bool] | None, aimed: bool, say: Say
) -> Kill:
    """One kill; `aimed`: at a moment when the leader is inside a transaction, otherwise at a moment
    when it is not, if anybody tells."""
    leader = cluster.leader()
    cluster.complete()
    # Not always at the same moment of its heartbeat, nor of the standbys' looks.
    time.sleep(CHANCE.uniform(0.3, 0.5 if quick else 1.5))
    until = time.monotonic() + PATIENCE
    while inside is not None and inside(leader.term) is not aimed:
        assert time.monotonic() < until, "the leader does not fire, or does nothing else"
    killed = cluster.kill(leader.pid)
    successor = cluster.successor(leader.term)
    fired = cluster.first_firing(successor.term)
    say(f"{'inside a transaction: ' if aimed else ''}firing again after {fired.at - killed:.3f} s")
    cluster.join()
    return Kill(aimed, successor.at - killed, fired.at - killed)
