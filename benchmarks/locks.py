"""Locks: what `Leases.acquire` and `release` cost, beside the least that a lock can cost.

Both on the same store with the same settings, in turns, so that a busy machine slows down both.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.figures import Figure, Say
from benchmarks.stores import Store
from tenure import Leases


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    # Short turns: what else the machine does must slow down both sides alike.
    repetitions, pairs = (2, 20) if quick else (60, 50)
    bare: list[float] = []
    ours: list[float] = []
    held: list[float] = []
    with store.place() as place, Leases(place.locks) as leases:

        def acquire_and_release() -> None:
            lease = leases.acquire("bench", store.lock_ttl)
            assert lease is not None
            assert lease.release()

        def hold() -> None:
            with leases.hold("bench", store.lock_ttl):
                pass

        # Connects, makes the tables; and a Redis that began just now grants nothing for one ttl.
        with leases.hold("bench", store.lock_ttl, wait=60):
            pass
        with store.bare_pairs(place) as pair:
            for number in range(1, repetitions + 1):
                bare.append(_each(pair, pairs))
                ours.append(_each(acquire_and_release, pairs))
                held.append(_each(hold, pairs))
                if number % 10 == 0 or quick:
                    said = f"{bare[-1]:.0f} µs {store.yardstick}, {ours[-1]:.0f} µs through Leases"
                    say(f"turn {number} of {repetitions}, {pairs} pairs: {said}")
    ratios = [mine / least for mine, least in zip(ours, bare, strict=True)]
    return [
        Figure(f"locks: {store.yardstick}", "µs", bare),
        Figure("locks: Leases.acquire + release", "µs", ours),
        Figure("locks: with Leases.hold", "µs", held),
        Figure(f"locks: acquire + release / {store.yardstick}", "×", ratios, 2.5, "median"),
    ]


def _each(pair: Callable[[], None], count: int) -> float:
    """Microseconds for one."""
    begun = time.perf_counter()
    for _ in range(count):
        pair()
    return (time.perf_counter() - begun) / count * 1e6
