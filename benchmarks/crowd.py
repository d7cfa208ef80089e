"""Crowd: 1, 10, 50 and 200 nodes on one server that have nothing to do, and then lose their leader.

How many connections has a process, how many transactions does a standby make, how much of the
server's processors does it take; and how long after `kill -9` of the leader is something fired
again? Up to ten nodes are processes of their own. Of more, 25 share a process: light stand-ins,
which connect, watch and listen as any other node does. All believe to be on other machines.

And how many transactions a second fire a run, or record one and claim the next, while 0, 100 or 500
others listen? Those are stand-ins too: the connections of an idle node, without a node.

    python -m benchmarks.crowd OPTIONS      such listeners, started from here
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from benchmarks.cluster import ROOT, Cluster, add_schedules
from benchmarks.figures import Figure, Say
from benchmarks.stores import Store, Usage, backend
from benchmarks.waiting import NODE, Kind, Waiting, succeeded, waiting
from tenure.backends.base import RUNS, SCHEDULES
from tenure.settings import Settings

SIZES, GROUP = (1, 10, 50, 200), 25
CONNECTIONS = 3_000
PATIENCE = 300.0
DEPUTIES = 3
"""So many watch the leader closely, and may have one more connection each for that."""
MOST_OF_STANDBY, MOST_OF_DEPUTY = 1.0, 3.0
"""Transactions a second."""
MOST_CONNECTIONS = 2
MOST_TAKEOVER, KILLS = 0.15, 20
"""Seconds, whatever the leader was doing; `takeover` tells apart what it was."""
LISTENERS, IN_A_PROCESS = (0, 100, 500), 100
LEAST_WITH_LISTENERS = 80.0
"""Per cent of the rate without any."""


@dataclass(frozen=True)
class Idle:
    """What a crowd that has nothing to do costs its server."""

    transactions: float
    """A second."""
    server: float
    """Milliseconds of its processors, each second."""
    connections: int


@dataclass(frozen=True)
class Rates:
    """Transactions a second that fire one run; and that record one and claim the next."""

    firing: float
    finishing: float


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    sizes = (1, 2) if quick else SIZES
    listeners = (0, 5) if quick else LISTENERS
    idle: dict[int, Idle] = {}
    takeover: dict[int, list[float]] = {}
    with store.roomy(CONNECTIONS) as roomy:
        if not quick:
            roomy.wear_in()
        for size in sizes:
            idle[size], takeover[size] = _crowd(roomy, size, quick, say)
        repetitions, rounds = (1, 20) if quick else (5, 200)
        rates = {
            count: _with_listeners(roomy, count, repetitions, rounds, say) for count in listeners
        }
    alone = idle[sizes[0]]
    figures = [
        Figure("crowd: 1 node, transactions of the leader", "/s", [alone.transactions]),
        Figure("crowd: 1 node, server", "ms/s", [alone.server]),
        Figure("crowd: 1 node, connections", "", [alone.connections], MOST_CONNECTIONS),
    ]
    for size in sizes[1:]:
        figures += _of_size(size, idle[size], alone, takeover[size])
    return figures + _of_listeners(rates)


def _of_size(size: int, idle: Idle, alone: Idle, takeover: list[float]) -> list[Figure]:
    standbys, deputies = size - 1, min(DEPUTIES, size - 1)
    asked = max(0.0, idle.transactions - alone.transactions) / standbys
    most = (MOST_OF_DEPUTY * deputies + MOST_OF_STANDBY * (standbys - deputies)) / standbys
    server = max(0.0, idle.server - alone.server) / standbys
    each = idle.connections / size
    most_connections = MOST_CONNECTIONS + deputies / size
    what = f"crowd: {size} nodes{f', {GROUP} in a process' if _group(size) > 1 else ''}"
    return [
        Figure(f"{what}, transactions of a standby", "/s", [asked], most),
        Figure(f"{what}, server", "ms/s", [idle.server]),
        Figure(f"{what}, server for a standby", "ms/s", [server]),
        Figure(f"{what}, connections of a node", "", [each], most_connections),
        Figure(f"{what}, kill -9 to first firing", "s", takeover, MOST_TAKEOVER),
    ]


def _of_listeners(rates: dict[int, list[Rates]]) -> list[Figure]:
    figures = []
    for what in ("firing", "finishing"):
        found = {count: [getattr(one, what) for one in each] for count, each in rates.items()}
        without = statistics.median(found[0])
        for count, each in found.items():
            title = f"crowd: {what}, {count} listeners"
            figures.append(Figure(title, "/s", each))
            if count:
                share = 100 * statistics.median(each) / without
                figures.append(
                    Figure(f"{title} / none", "%", [share], LEAST_WITH_LISTENERS, least=True)
                )
    return figures


def _group(size: int) -> int:
    return GROUP if size > 10 else 1


def _crowd(store: Store, size: int, quick: bool, say: Say) -> tuple[Idle, list[float]]:
    seconds, kills = (2.0, 1) if quick else (20.0, KILLS)
    group = _group(size)
    with (
        store.place() as place,
        Cluster(place, apart=True, group=group, patience=PATIENCE) as cluster,
    ):
        begun = time.monotonic()
        cluster.start(size // group)
        say(f"{size} nodes in {size // group} processes take part after {_since(begun)}")
        time.sleep(0.5 if quick else 10.0)  # let them settle
        before, begun = _usage(store, place.url), time.monotonic()
        time.sleep(seconds)
        after, took = _usage(store, place.url), time.monotonic() - begun
        idle = Idle(
            # Without the transactions of the two looks.
            max(0, after.transactions - before.transactions - 2) / took,
            # A process that ended in between is known only to a tick of 10 ms.
            max(0.0, after.seconds - before.seconds) / took * 1000,
            after.connections,
        )
        say(
            f"{size} nodes: {idle.transactions:.1f} transactions and {idle.server:.1f} ms of the"
            f" server each second, {idle.connections} connections"
        )
        found = _kill(cluster, place.url, kills, say) if size > 1 else []
        if group == 1:
            cluster.stop()
    return idle, found


def _kill(cluster: Cluster, url: str, kills: int, say: Say) -> list[float]:
    chance = random.Random(3)
    found = []
    add_schedules(url, 20, 0.5, spread=True)  # something is due every 25 ms
    for number in range(1, kills + 1):
        leader = cluster.leader()
        cluster.complete()
        # Let the newcomers be counted: all deputies may have been in the process that was killed.
        time.sleep(chance.uniform(1.0, 2.0) + Settings().rollout_poll)
        # In a crowd all nodes of its process go with it.
        killed = cluster.kill(leader.pid)
        successor = cluster.successor(leader.term)
        found.append(cluster.first_firing(successor.term).at - killed)
        say(f"kill {number} of {kills}: firing again after {found[-1]:.3f} s")
        if number < kills:
            cluster.join()
    return found


def _usage(store: Store, url: str) -> Usage:
    usage = store.usage(url)
    assert usage is not None
    return usage


def _since(begun: float) -> str:
    return f"{time.monotonic() - begun:.1f} s"


def _with_listeners(
    store: Store, count: int, repetitions: int, rounds: int, say: Say
) -> list[Rates]:
    with store.fresh() as url:
        asyncio.run(_migrate(url))
        with _listening(url, count):
            found = asyncio.run(_rates(url, repetitions, rounds))
    each = ", ".join(f"{one.firing:,.0f} and {one.finishing:,.0f}" for one in found)
    say(f"{count} listeners: {each} transactions a second that fire, and that finish and claim")
    return found


async def _migrate(url: str) -> None:
    store = backend(url)
    await store.open()
    await store.close()


async def _rates(url: str, repetitions: int, rounds: int) -> list[Rates]:
    found = []
    async with waiting(url) as here:
        await here.add([Kind("probe")])
        for _ in range(repetitions):
            begun = time.perf_counter()
            for _ in range(rounds):
                await here.fire(["probe"], 1)
            fired = time.perf_counter()
            assert await _one_by_one(here) == rounds
            found.append(Rates(rounds / (fired - begun), rounds / (time.perf_counter() - fired)))
    return found


async def _one_by_one(here: Waiting) -> int:
    """Each result in a transaction of its own, and the claim of the next one in it: what a worker
    with one slot does."""
    count, batch = 0, await here.store.runs.claim(NODE, ["work"], 1)
    while batch.runs:
        count += len(batch.runs)
        results = [succeeded(run) for run in batch.runs]
        batch = await here.store.runs.claim(NODE, ["work"], 1, results)
    return count


@contextmanager
def _listening(url: str, count: int) -> Iterator[None]:
    with ExitStack() as processes:
        started = []
        for first in range(0, count, IN_A_PROCESS):
            options = json.dumps({"url": url, "count": min(IN_A_PROCESS, count - first)})
            process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.crowd", options],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            processes.enter_context(process)  # at its end the input is closed, and it is awaited
            processes.callback(process.kill)
            started.append(process)
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "listening\n"
        yield


async def listen(url: str, count: int) -> None:
    """So many, each with connections of its own, as long as our input is open."""
    stores = [backend(url) for _ in range(count)]
    for store in stores:
        await store.open(migrate=False)
        store.wakeups.subscribe(RUNS, lambda: None)
        store.wakeups.subscribe(SCHEDULES, lambda: None)
    print("listening", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(listen(**json.loads(sys.argv[1])))
