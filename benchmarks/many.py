"""Many: 1,000,000 schedules, of which 100 are due each second, beside 1,000 of which as many are.

A leader for each, in a process of its own: how long does a tick take, and how much memory does the
process need? Each schedule has its turn once in 10,000 seconds, or once in 10; those of one second
are spread all over the table. The two leaders tick in turns, half a second apart.

    python -m benchmarks.many OPTIONS      such a leader, started from here
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.cluster import PATIENCE, ROOT
from benchmarks.figures import Figure, Say
from benchmarks.stores import Store, backend
from tenure import Scheduler, Settings, every, triggers
from tenure.model import Change, Fence, Fired, Overlap, ScheduleSpec
from tenure.node.ticker import Ticker
from tenure.schedules.planning import Plan

FEW, MANY, DUE = 1_000, 1_000_000, 100
MOST_TIMES, MOST_MEGABYTES = 1.5, 50.0


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    sizes, due, seconds = ((20, 200), 10, 2) if quick else ((FEW, MANY), DUE, 30)
    few, many = (f"{size:,} stored" for size in sizes)
    with store.fresh() as small, store.fresh() as large:
        for url, size, offset in ((small, sizes[0], 0.0), (large, sizes[1], 0.5)):
            begun = time.perf_counter()
            _fill(store, url, size, due, offset)
            say(f"{size:,} schedules stored in {time.perf_counter() - begun:.1f} s")
        leaders = [_start(url, due, seconds) for url in (small, large)]
        told = [_result(leader) for leader in leaders]
    ticks = [[tick * 1000 for tick in each["ticks"]] for each in told]
    count = min(map(len, ticks))
    memory = [each["memory"] / 1e6 for each in told]
    say(f"{count} ticks; {memory[0]:,.0f} and {memory[1]:,.0f} MB")
    times = [mine / other for other, mine in zip(*(t[:count] for t in ticks), strict=True)]
    more = max(0.0, memory[1] - memory[0])
    return [
        Figure(f"many: a tick with {due} due, {few}", "ms", ticks[0]),
        Figure(f"many: a tick with {due} due, {many}", "ms", ticks[1]),
        Figure(f"many: a tick, {many} / {few}", "×", times, MOST_TIMES, "median"),
        Figure(f"many: the leader's memory, {few}", "MB", [memory[0]]),
        Figure(f"many: the leader's memory, {many}, more by", "MB", [more], MOST_MEGABYTES),
    ]


def _fill(store: Store, url: str, size: int, due: int, offset: float) -> None:
    """Each second as many are due, in this fraction of it."""
    interval = size // due
    begin = datetime.now(UTC).replace(microsecond=int(offset * 1e6))

    async def add(change: Change) -> None:
        place = backend(url)
        await place.open()
        try:
            await place.schedules.change([change])
        finally:
            await place.close()

    starts = [begin + timedelta(seconds=second) for second in range(interval)]
    plans = [(triggers.dump(every(seconds=interval, start=start)), start) for start in starts]
    spec = ScheduleSpec("one", plans[0][0], "work", '{"user": 1}', overlap=Overlap.ALLOW)
    asyncio.run(add(Change(spec, begin, begin)))
    store.multiply(url, plans, due)
    store.tidy(url)


def _start(url: str, due: int, seconds: float) -> subprocess.Popen[str]:
    options = json.dumps({"url": url, "due": due, "seconds": seconds})
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.many", options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def _result(leader: subprocess.Popen[str]) -> dict[str, Any]:
    try:
        told, _ = leader.communicate(timeout=2 * PATIENCE)
    finally:
        leader.kill()
    result: dict[str, Any] = json.loads(told)
    return result


class Watched(Ticker):
    """A ticker that notes how long the ticks took that fired what one second brings."""

    due: ClassVar[int] = DUE
    took: ClassVar[list[float]] = []
    _last, _waited = 0, 0.0

    async def step(self) -> float | None:
        self._last, self._waited, begun = 0, 0.0, time.perf_counter()
        wait = await super().step()
        if self._last == self.due:  # not what had piled up before the leader was there
            self.took.append(time.perf_counter() - begun - self._waited)
        return wait

    async def _wait(self, seconds: float) -> bool:
        begun = time.perf_counter()
        try:
            return await super()._wait(seconds)
        finally:
            self._waited += time.perf_counter() - begun

    def _tell(self, fence: Fence, late: float, planned: Plan, done: Fired, took: float) -> None:
        self._last = done.fired
        super()._tell(fence, late, planned, done, took)


def lead(url: str, due: int, seconds: float) -> None:
    """Lead until there were so many ticks, and tell about them. Nobody executes the runs."""
    from tenure.node import node

    Watched.due = due
    node.Ticker = Watched  # type: ignore[attr-defined]
    with Scheduler(url, settings=Settings(concurrency=0)):
        until = time.monotonic() + seconds + PATIENCE
        while len(Watched.took) < seconds and time.monotonic() < until:
            time.sleep(0.1)
    print(json.dumps({"ticks": Watched.took, "memory": most_memory()}))


def most_memory() -> int:
    """The most that this process has had, in bytes."""
    try:
        # Not by getrusage: on Linux a child begins there with what its parent has had.
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        (most,) = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
        return int(most) * 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    lead(**json.loads(sys.argv[1]))
