"""Cost: what does a server do for one run? Bytes of its log, and its processors' time.

10,000 schedules with default settings are fired, one occurrence of each, and their runs are claimed
and finished: through the protocol, without tasks in between, so that nothing else is in it. In
large portions, as after an outage or at midnight, and in small ones, as in an ordinary second. The
first round, which writes whole pages into the log after a checkpoint, is not counted.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from benchmarks.figures import Figure, Say
from benchmarks.stores import Store, Usage
from benchmarks.waiting import Kind, Waiting, waiting
from tenure.model import Overlap

MOST_LOGGED = 1_560.0
"""Bytes for a run from its firing to its result: 35 % less than the 2.4 kB of before."""
MOST_OF_FIRING = 1.0
TOLD_AFTER = 1.5
"""A server's processes tell what they did at most once a second."""


@dataclass(frozen=True)
class Case:
    fired: int
    """How many in a transaction."""
    claimed: int

    @property
    def title(self) -> str:
        return f"fired by {self.fired:,}, claimed by {self.claimed:,}"


CASES = (Case(1_000, 100), Case(50, 20))


@dataclass(frozen=True)
class Round:
    """Of one run, on average."""

    logged_firing: float
    logged_executing: float
    fire: float
    execute: float
    """Microseconds of the server's processors."""
    kept: float
    """Bytes of tables and indexes."""


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    count, rounds = (100, 1) if quick else (10_000, 4)
    figures = []
    for case in CASES:
        with store.fresh() as url:
            found, hot = asyncio.run(_measure(store, url, case, count, rounds, say))
        logged = [r.logged_firing + r.logged_executing for r in found]
        shares = [r.execute / r.fire for r in found]
        what = f"cost: {case.title}"
        figures += [
            Figure(f"{what}, log of a firing", "bytes", [r.logged_firing for r in found]),
            Figure(f"{what}, log of a run in all", "bytes", logged, MOST_LOGGED, "median"),
            Figure(f"{what}, tables and indexes of a run", "bytes", [r.kept for r in found]),
            Figure(f"{what}, server: fire", "µs", [r.fire for r in found]),
            Figure(f"{what}, server: claim + finish", "µs", [r.execute for r in found]),
            Figure(f"{what}, claim + finish / fire", "×", shares, MOST_OF_FIRING, "median"),
        ]
        figures += [
            Figure(f"{what}, updates of {name} without an index", "%", [share])
            for name, share in hot.items()
        ]
    return figures


async def _measure(
    store: Store, url: str, case: Case, count: int, rounds: int, say: Say
) -> tuple[list[Round], dict[str, float]]:
    names = [f"bench-{number:05}" for number in range(count)]
    found = []
    async with waiting(url) as here:
        await here.add([Kind(name, overlap=Overlap.SKIP) for name in names])
        store.tidy(url)
        await _fire(here, names, case.fired)
        await here.execute(["work"], case.claimed)
        begun = _usage(store, url)
        for number in range(1, rounds + 1):
            before, size = _usage(store, url), store.sizes(url)["tables"]
            await _fire(here, names, case.fired)
            between = _usage(store, url)
            executed = await here.execute(["work"], case.claimed)
            after = _usage(store, url)
            assert executed == count
            found.append(
                Round(
                    (between.logged - before.logged) / count,
                    (after.logged - between.logged) / count,
                    (between.seconds - before.seconds) / count * 1e6,
                    (after.seconds - between.seconds) / count * 1e6,
                    max(0, store.sizes(url)["tables"] - size) / count,
                )
            )
            last = found[-1]
            said = f"fire {last.fire:.0f} µs, claim + finish {last.execute:.0f} µs"
            say(f"{number} of {rounds}, {case.title}: {said} of the server's time")
        # The connections have told when they were last asked; let them tell the rest.
        await asyncio.sleep(TOLD_AFTER)
        await here.store.now()
        ended = _usage(store, url)
    updates = {
        name: tuple(
            after - before
            for before, after in zip(
                begun.updates.get(name, (0, 0)), ended.updates[name], strict=True
            )
        )
        for name in sorted(ended.updates)
    }
    return found, {name: 100 * hot / every for name, (every, hot) in updates.items() if every}


def _usage(store: Store, url: str) -> Usage:
    usage = store.usage(url)
    assert usage is not None
    return usage


async def _fire(here: Waiting, names: list[str], portion: int) -> None:
    for first in range(0, len(names), portion):
        await here.fire(names[first : first + portion], 1)
