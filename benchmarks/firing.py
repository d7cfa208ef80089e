"""Firing: 10,000 schedules are due; how many per second are fired?

Half of them `every`, half `cron`; 10 % or all of the triggers are different from each other. The
leader's own ticker, without a node around it, and fresh: it has seen none of the triggers before.
Each firing leaves its occurrence and its run. Beside it, in turns, the same rows written by
set-based statements alone, which is what the store can do at best; and other schedulers.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from benchmarks import peers
from benchmarks.figures import Figure, Say
from benchmarks.peers.workload import Rule, rules
from benchmarks.stores import Store, backend
from tenure import cron, every, triggers
from tenure.facts import Facts, Ticked
from tenure.model import Change, Fence, ScheduleSpec
from tenure.node.service import Surroundings
from tenure.node.ticker import Ticker
from tenure.process.clock import SystemClock
from tenure.settings import Settings
from tenure.triggers import Trigger

BATCH = Settings().batch
Spec = Callable[[str, str], ScheduleSpec]
"""A schedule of this name and trigger."""
FENCE = Fence("tenure/leader", 1, "bench")


class _Office:
    """A mandate that lasts."""

    leading = FENCE
    steady = float("inf")

    def deposed(self, fence: Fence) -> None:
        raise AssertionError(fence)


DISTINCT = {"10 % distinct": 0.1, "all distinct": 1.0}
TIMES_PEERS = {
    "sqlite": {"10 % distinct": 50.0, "all distinct": 20.0},
    "postgres": {"10 % distinct": 15.0, "all distinct": 15.0},
}
"""How many times as fast as the best of the peers."""
OF_BARE = {"postgres": 40.0}
"""Per cent of the bare statements' speed. Without a server to talk to they cost next to nothing."""
LOOKS = 3
"""Ours takes less than a second where a peer takes twenty, and so is at the mercy of one moment of
the machine: of each turn the median of so many counts."""


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    repetitions, looks, count = (1, 1, 200) if quick else (5, LOOKS, 10_000)
    fired: dict[str, list[float]] = {title: [] for title in DISTINCT}
    least: dict[str, list[float]] = {title: [] for title in DISTINCT}
    rivals: dict[str, list[float]] = {}
    if quick:
        say("left out of a quick run: the other schedulers, which need environments of their own")
    else:
        rivals = {peer: [] for peer in peers.PEERS[store.name]}
    pythons = {peer: peers.python(peer, say) for peer in rivals}
    for number in range(1, repetitions + 1):
        for title, distinct in DISTINCT.items():
            wanted = rules(count, distinct)
            speeds = [(ours(store, wanted), bare(store, wanted)) for _ in range(looks)]
            fired[title].append(statistics.median(mine for mine, _ in speeds))
            least[title].append(statistics.median(most for _, most in speeds))
            said = f"{fired[title][-1]:,.0f} firings a second, {least[title][-1]:,.0f} bare"
            say(f"{number} of {repetitions}, {count:,} due, {title}: {said}")
        for peer in peers.promising(rivals):
            with store.fresh() as url:
                rivals[peer].append(peers.fire(pythons[peer], peer, url, count))
            say(f"{number} of {repetitions}, {peers.version(peer)}: {rivals[peer][-1]:,.0f}")
    return _figures(store.name, fired, least, rivals)


def _figures(
    store: str,
    fired: dict[str, list[float]],
    least: dict[str, list[float]],
    rivals: dict[str, list[float]],
) -> list[Figure]:
    figures = [Figure(f"firing: {peers.version(p)}", "/s", speeds) for p, speeds in rivals.items()]
    rounds = len(next(iter(fired.values())))
    # Of each round the best. Who was asked once only was far from it.
    best = [max((s[n] for s in rivals.values() if n < len(s)), default=0.0) for n in range(rounds)]
    for title, speeds in fired.items():
        figures.append(Figure(f"firing: Tenure, {title}", "/s", speeds))
        if rivals:
            times = [mine / theirs for mine, theirs in zip(speeds, best, strict=True)]
            wanted = TIMES_PEERS[store][title]
            what = f"firing: Tenure / the best of the others, {title}"
            figures.append(Figure(what, "×", times, wanted, "median", least=True))
        figures.append(Figure(f"firing: bare set-based statements, {title}", "/s", least[title]))
        shares = [100 * mine / most for mine, most in zip(speeds, least[title], strict=True)]
        what = f"firing: Tenure / bare statements, {title}"
        figures.append(Figure(what, "%", shares, OF_BARE.get(store), "median", least=True))
    return figures


def _of_task(name: str, trigger: str) -> ScheduleSpec:
    return ScheduleSpec(name, trigger, "work", '{"user": 1}')


def ours(store: Store, wanted: Sequence[Rule], spec: Spec = _of_task) -> float:
    """How many firings a second the leader's ticker makes."""
    with store.fresh() as url:
        return asyncio.run(_fire_all(url, wanted, spec))


def bare(store: Store, wanted: Sequence[Rule], spec: Spec = _of_task) -> float:
    """And bare statements."""
    with store.fresh() as url:
        asyncio.run(_fill(url, wanted, spec))
        begun = time.perf_counter()
        moved = store.bare_firing(url, BATCH, events=spec is not _of_task)
        took = time.perf_counter() - begun
    assert moved >= len(wanted)  # one may have come due again meanwhile
    return moved / took


async def _fire_all(url: str, wanted: Sequence[Rule], spec: Spec) -> float:
    await _fill(url, wanted, spec)
    triggers.load.cache_clear()
    store, facts, told = backend(url), Facts(), list[Ticked]()
    facts.on("tick.fired", told.append)  # type: ignore[arg-type]
    await store.open(migrate=False)
    around = Surroundings(SystemClock(), facts, Settings())
    ticker = Ticker(store.schedules, _Office(), around)
    try:
        assert await store.office.take(FENCE) == FENCE
        gc.collect()  # what the filling left behind is not the leader's
        begun = time.perf_counter()
        while await ticker.step() == 0.0:
            pass
        took = time.perf_counter() - begun
    finally:
        await store.close()
    fired = sum(tick.fired for tick in told)
    assert fired >= len(wanted)
    return fired / took


async def _fill(url: str, wanted: Sequence[Rule], spec: Spec) -> None:
    store = backend(url)
    await store.open()
    try:
        changes = list(_changes(wanted, await store.now(), spec))
        for first in range(0, len(changes), BATCH):
            await store.schedules.change(changes[first : first + BATCH])
    finally:
        await store.close()


def _changes(wanted: Sequence[Rule], now: datetime, spec: Spec) -> Sequence[Change]:
    """Schedules of which the last occurrence is due, and none before."""
    known: dict[Rule, tuple[str, datetime]] = {}
    for rule in wanted:
        if rule not in known:
            trigger = trigger_of(rule, now)
            due = trigger.latest(now)
            assert due is not None
            known[rule] = triggers.dump(trigger), due
    return [
        Change(spec(f"bench-{number:06}", trigger), due, due)
        for number, (trigger, due) in enumerate(map(known.__getitem__, wanted))
    ]


def trigger_of(rule: Rule, now: datetime) -> Trigger:
    if rule.expression is not None:
        return cron(rule.expression).anchored(now)
    assert rule.seconds is not None
    return every(seconds=rule.seconds, start=now - timedelta(days=1)).anchored(now)
