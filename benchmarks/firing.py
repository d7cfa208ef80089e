"""Firing: 10,000 schedules are due; how many per second are fired, in batches of 1,000?

The leader's own path, without a node around it: ask what is due, plan, fire under the fence. Beside
it, in turns, the same rows written by set-based statements alone: what the store can do at best.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

from benchmarks.figures import Figure, Say
from benchmarks.stores import Store, backend
from tenure import every, triggers
from tenure.backends.base import ScheduleStore
from tenure.model import Change, Fence, ScheduleSpec
from tenure.planning import plan

BATCH = 1_000
FENCE = Fence("tenure/leader", 1, "bench")


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    repetitions, count = (1, 500) if quick else (5, 10_000)
    ours: list[float] = []
    bare: list[float] = []
    for number in range(1, repetitions + 1):
        ours.append(count / _ours(store, count))
        bare.append(count / _bare(store, count))
        said = f"{ours[-1]:,.0f} firings a second, {bare[-1]:,.0f} bare"
        say(f"{number} of {repetitions}, {count:,} due: {said}")
    ratios = [least / mine for mine, least in zip(ours, bare, strict=True)]
    return [
        Figure("firing: due, plan and fire", "/s", ours),
        Figure("firing: bare set-based statements", "/s", bare),
        Figure("firing: time / bare time", "×", ratios),
    ]


def _ours(store: Store, count: int) -> float:
    with store.fresh() as url:
        return asyncio.run(_fire_all(url, count))


def _bare(store: Store, count: int) -> float:
    with store.fresh() as url:
        asyncio.run(_fill(url, count))
        begun = time.perf_counter()
        moved = store.bare_firing(url, BATCH)
        took = time.perf_counter() - begun
    assert moved == count
    return took


async def _fire_all(url: str, count: int) -> float:
    await _fill(url, count)
    store = backend(url)
    await store.open(migrate=False)
    try:
        assert await store.schedules.take_office(FENCE)
        fired, begun = 0, time.perf_counter()
        while (due := await store.schedules.due(BATCH)).schedules:
            planned = plan(due.schedules, due.now)
            fired += (await store.schedules.fire(FENCE, planned.firings)).fired
        took = time.perf_counter() - begun
    finally:
        await store.close()
    assert fired == count
    return took


async def _fill(url: str, count: int) -> None:
    store = backend(url)
    await store.open()
    try:
        await _add(store.schedules, count)
    finally:
        await store.close()


async def _add(schedules: ScheduleStore, count: int) -> None:
    """Daily schedules that came due within the last hour, each at a moment of its own."""
    now = datetime.now(UTC)
    changes = []
    for number in range(count):
        due = now - timedelta(hours=1) * (number + 1) / (count + 1)
        trigger = triggers.dump(every(hours=24, start=due))
        spec = ScheduleSpec(f"bench-{number:06}", trigger, "work", '{"user": 1}')
        changes.append(Change(spec, due, due))
    for first in range(0, count, BATCH):
        await schedules.change(changes[first : first + BATCH])
