"""Backlog: what does a claim cost beside runs that wait, and that this claim does not take?

Twenty runs of a task without a lock key are fired; then a claim may take twenty, and their results
are recorded. In turns on an empty store and on one where runs wait: of tasks that the node serves,
of tasks that it does not serve, of one lock key, and of one lock key in two priorities; the last
two also while the first run of that key is claimed. On a server also after as many runs have come
and gone while a stranger kept a transaction open, so that nothing could be tidied up.

The wait is within twice that of the empty store, whatever waits. A claim that the store gave up, or
that would never end, counts as the time after which it was given up.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Coroutine, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from benchmarks.figures import Figure, Say
from benchmarks.stores import Store
from benchmarks.waiting import BATCH, NODE, Kind, Waiting, succeeded, waiting
from tenure.errors import StoreError
from tenure.model import Overlap, RunRecord

PROBE = Kind("probe", "probe")
SERVED = ["probe", "work"]
ROOM = 20
MOST_TIMES = 2.0
ENOUGH = 60.0
"""No more rounds after so many seconds of a case: it is slow enough to be seen."""


@dataclass(frozen=True)
class Case:
    """Runs that wait; those of each kind in the same number."""

    title: str
    kinds: Sequence[Kind]
    each: int
    held: bool = False
    """The first run of the lock key is claimed meanwhile."""
    gone: bool = False
    """They do not wait any more: they were executed beside an open snapshot."""

    @property
    def beside(self) -> str:
        return f"{'after' if self.gone else 'beside'} {len(self.kinds) * self.each:,} {self.title}"


def _kinds(task: str, count: int = 20) -> list[Kind]:
    return [Kind(f"{task}-{number}", task) for number in range(count)]


QUEUED = Kind("low", overlap=Overlap.QUEUE, lock="key")
ONE_KEY = [QUEUED]
TWO_PRIORITIES = [QUEUED, replace(QUEUED, name="high", priority=1)]
CASES = (
    Case("of served tasks", _kinds("work"), 15_000),
    Case("of tasks not served", _kinds("elsewhere"), 15_000),
    Case("of one lock key", ONE_KEY, 100_000),
    Case("of one lock key, one claimed", ONE_KEY, 100_000, held=True),
    Case("of one lock key in two priorities", TWO_PRIORITIES, 11_000),
    Case("of one lock key in two priorities, one claimed", TWO_PRIORITIES, 11_000, held=True),
    # One occurrence after the other: each moves its schedule on, too.
    Case("executed beside an open snapshot", _kinds("work", BATCH), 300, gone=True),
)


@dataclass(frozen=True)
class Took:
    """Milliseconds of one round."""

    claim: float
    finish: float | None
    """None: it could not claim any."""
    due: float


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    cases = [case for case in CASES if store.snapshots or not case.gone]
    if quick:
        cases = [
            replace(case, kinds=case.kinds[:20], each=max(10, case.each // 1_000))
            for case in cases[-3:]
        ]
    with store.fresh() as empty:
        return asyncio.run(_all(store, cases, empty, 2 if quick else 30, say))


async def _all(
    store: Store, cases: Sequence[Case], empty: str, rounds: int, say: Say
) -> list[Figure]:
    figures: list[Figure] = []
    alone: list[float] = []
    async with waiting(empty) as nothing:
        await nothing.add([PROBE])
        store.tidy(empty)
        for case in cases:
            with store.fresh() as full:
                pairs = await _measure(store, case, nothing, full, rounds, say)
            alone += [took.claim for took, _ in pairs]
            figures += _figures(case, pairs)
    return [Figure("backlog: claim beside nothing", "ms", alone), *figures]


def _figures(case: Case, pairs: Sequence[tuple[Took, Took]]) -> list[Figure]:
    claims = [full.claim / empty.claim for empty, full in pairs]
    finishes = [full.finish / empty.finish for empty, full in pairs if full.finish and empty.finish]
    figures = [
        Figure(f"backlog: claim {case.beside}", "ms", [full.claim for _, full in pairs]),
        Figure(f"backlog: claim {case.beside} / nothing", "×", claims, MOST_TIMES, "median"),
    ]
    if finishes:
        figures.append(Figure(f"backlog: finish {case.beside} / nothing", "×", finishes))
    if case.gone:
        looks = [full.due / empty.due for empty, full in pairs]
        what = f"backlog: look for what is due {case.beside}"
        figures.append(Figure("backlog: look for what is due", "ms", [e.due for e, _ in pairs]))
        figures.append(Figure(what, "ms", [full.due for _, full in pairs]))
        figures.append(Figure(f"{what} / nothing", "×", looks, MOST_TIMES, "median"))
    return figures


async def _measure(
    store: Store, case: Case, nothing: Waiting, full: str, rounds: int, say: Say
) -> list[tuple[Took, Took]]:
    found: list[tuple[Took, Took]] = []
    async with waiting(full) as much:
        await much.add([PROBE, *case.kinds])
        with store.snapshot(full) if case.gone else nullcontext():
            begun = time.perf_counter()
            await much.fill([kind.name for kind in case.kinds], case.each)
            if case.gone:
                # As in life, what is fired from now on was due after what is gone.
                await much.fire([PROBE.name], 1, timedelta(hours=1))
                await much.execute(SERVED, BATCH)
            say(f"{case.beside}: made in {time.perf_counter() - begun:.1f} s")
            store.tidy(full)
            if case.held:
                held = await much.store.runs.claim("other", ["work"], 1)
                assert len(held.runs) == 1
            until = time.monotonic() + ENOUGH
            while len(found) < rounds and (not found or time.monotonic() < until):
                found.append((await _round(nothing), await _round(much)))
    usual, there = (statistics.median(took[place].claim for took in found) for place in (0, 1))
    said = f"a claim takes {there:.1f} ms, beside nothing {usual:.1f} ms"
    say(f"{case.beside}: {said}; {len(found)} rounds")
    return found


async def _round(here: Waiting) -> Took:
    await here.fire([PROBE.name], ROOM)
    runs: list[RunRecord] = []

    async def claim() -> None:
        runs.extend((await here.store.runs.claim(NODE, SERVED, ROOM)).runs)

    claimed = await _milliseconds(claim())
    results = [succeeded(run) for run in runs]
    finished = await _milliseconds(here.store.runs.claim(NODE, [], 0, results)) if results else None
    due = await _milliseconds(here.store.schedules.due(BATCH))
    return Took(claimed, finished, due)


async def _milliseconds(call: Coroutine[Any, Any, object]) -> float:
    begun = time.perf_counter()
    with suppress(StoreError):  # given up: so long it has taken, at the least
        await call
    return (time.perf_counter() - begun) * 1000
