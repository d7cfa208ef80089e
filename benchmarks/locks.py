"""Locks: what `Leases.acquire` and `release` cost, beside the least that a lock can cost.

Both on the same file with the same settings, in turns, so that a busy machine slows down both.
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
    with store.fresh() as url, Leases(url) as leases:

        def acquire_and_release() -> None:
            lease = leases.acquire("bench")
            assert lease is not None
            assert lease.release()

        def hold() -> None:
            with leases.hold("bench"):
                pass

        acquire_and_release()  # connects, and makes the tables
        with store.bare_pairs(url) as pair:
            for number in range(1, repetitions + 1):
                bare.append(_each(pair, pairs))
                ours.append(_each(acquire_and_release, pairs))
                held.append(_each(hold, pairs))
                if number % 10 == 0 or quick:
                    said = f"{bare[-1]:.0f} µs bare, {ours[-1]:.0f} µs through Leases"
                    say(f"turn {number} of {repetitions}, {pairs} pairs: {said}")
    ratios = [mine / least for mine, least in zip(ours, bare, strict=True)]
    return [
        Figure("locks: bare upsert + update", "µs", bare),
        Figure("locks: Leases.acquire + release", "µs", ours),
        Figure("locks: with Leases.hold", "µs", held),
        Figure("locks: acquire + release / bare", "×", ratios, target=2.5, judged="median"),
    ]


def _each(pair: Callable[[], None], count: int) -> float:
    """Microseconds for one."""
    begun = time.perf_counter()
    for _ in range(count):
        pair()
    return (time.perf_counter() - begun) / count * 1e6
