"""A rolling restart under load: three nodes are replaced one after the other by nodes with newer
code, while 200 runs a second are executed. Stopped politely, and killed.

Whether runs of a lock key overlapped, or too many of a task with a limit were executed at a time,
is told by the tasks themselves.
"""

from __future__ import annotations

import signal
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.postgres import PostgresCluster, running_server
from tests.faults.support import Cluster, Program, task, until

# Six processes are started one after the other; on a busy machine that takes minutes.
pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.timeout(300)]

STEP = 0.25
"""Seconds from one time of a short task to its next."""
MOST, MOST_LATER = 2, 4
"""How many of one task at a time: by the old code, and by the new."""
LOADED = [task(f"fast {n}", STEP, overlap="allow", catch_up="all") for n in range(47)]
LIMITED = task("limited", STEP, work=0.55, overlap="allow", catch_up="all", max_running=MOST)
"""More than fit by the old code, so that they wait in line, and fewer than fit by the new."""
KEYED = [
    task(f"keyed {n}", 0.5, work=0.02, overlap="queue", catch_up="all", lock="shared")
    for n in range(4)
]
OLD = [*LOADED, LIMITED, *KEYED]
RATE = 200
"""Runs a second: 188 of short tasks, 8 of one lock key, 4 of a task with a limit."""
NEW = [*LOADED, LIMITED | {"max_running": MOST_LATER}, *KEYED, task("new", 0.25, overlap="allow")]
SETTINGS = {"concurrency": 8, "rollout_poll": 0.2, "rollout_grace": 0.5}
TTL = 6.0


@pytest.fixture(params=["sqlite", "postgres"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    if request.param == "sqlite":
        yield from _closed(Cluster(tmp_path))
    else:
        with running_server() as server:
            yield from _closed(PostgresCluster(tmp_path, server))


def _closed(cluster: Cluster) -> Iterator[Cluster]:
    try:
        yield cluster
    finally:
        cluster.end()
        print(cluster.logs())  # noqa: T201 - pytest shows it with a failure


def start(cluster: Cluster, who: str, code: list[dict[str, object]]) -> Program:
    node = cluster.node(who, *code, ttl=TTL, settings=SETTINGS)
    cluster.journal.fact("node.started", who, within=60)
    cluster.journal.wait("end", who)
    return node


def all_done(cluster: Cluster, last: int) -> bool:
    """Have all runs up to this one succeeded?"""
    what, where = "SELECT count(*) AS n FROM", "WHERE state <> 'succeeded' AND id <="
    if isinstance(cluster, PostgresCluster):
        left: int = cluster.query(f"{what} tenure.run {where} %s", last)[0]["n"]
    else:
        left = cluster.store.rows(f"{what} tenure_run {where} ?", last)[0]["n"]
    return not left


def settled(cluster: Cluster) -> None:
    """Everything that was begun by now, or waits before that, has ended; then all nodes stop."""
    last = max(entry["run"] for entry in cluster.journal.entries("begin"))
    until(lambda: all_done(cluster, last), f"all runs up to {last} to end")
    cluster.stop_all()
    assert cluster.complaints() == []
    check_rate(cluster)


def check_rate(cluster: Cluster) -> None:
    """So many were fired each second, none was missed or skipped, and so many were executed: in
    the best two seconds, because a busy machine starts processes in some of the others."""
    store = cluster.copy() if isinstance(cluster, PostgresCluster) else cluster.store
    rows = store.rows(
        "SELECT state, nominal FROM tenure_occurrence o JOIN tenure_schedule s"
        " ON s.uid = o.schedule_uid WHERE s.name <> 'new'"
    )
    assert {row["state"] for row in rows} == {"fired"}
    times = [row["nominal"] / 1e6 for row in rows]
    steps = max(times) - min(times) + STEP  # the last of them lasts, too
    assert len(times) / steps == pytest.approx(RATE, rel=0.1)
    begun = sorted(entry.at for entry in cluster.journal.entries("begin"))
    best = max(bisect_left(begun, at + 2) - n for n, at in enumerate(begun))
    assert best / 2 > 0.9 * RATE


def executions(cluster: Cluster, killed: dict[int, float]) -> dict[str, list[tuple[float, int]]]:
    """When executions of each schedule began (+1) and ended (-1); those of a killed process with
    it."""
    moments: dict[str, list[tuple[float, int]]] = {}
    open_: dict[tuple[int, int], tuple[str, int]] = {}
    for entry in cluster.journal.entries():
        if entry.event in ("begin", "end"):
            key = entry["run"], entry["attempt"]
            change = 1 if entry.event == "begin" else -1
            moments.setdefault(entry["schedule"], []).append((entry.at, change))
            if change > 0:
                open_[key] = entry["schedule"], entry.pid
            else:
                del open_[key]
    for schedule, pid in open_.values():
        moments[schedule].append((killed[pid], -1))
    return moments


def most_at_a_time(moments: list[tuple[float, int]]) -> int:
    running = most = 0
    for _, change in sorted(moments):
        running += change
        most = max(most, running)
    return most


def check_exclusion(cluster: Cluster, killed: dict[int, float]) -> None:
    moments = executions(cluster, killed)
    declared = cluster.journal.wait("imported", "new 0").at
    by_old = [(moment, change) for moment, change in moments["limited"] if moment < declared]
    assert most_at_a_time(by_old) == MOST
    assert MOST < most_at_a_time(moments["limited"]) <= MOST_LATER
    keyed = [moment for n in range(len(KEYED)) for moment in moments[f"keyed {n}"]]
    assert most_at_a_time(keyed) == 1


def test_nodes_that_are_stopped_one_after_the_other_execute_everything_once(
    cluster: Cluster,
) -> None:
    nodes = [start(cluster, f"old {n}", OLD) for n in range(3)]
    for number, node in enumerate(nodes):
        start(cluster, f"new {number}", NEW)
        node.signal(signal.SIGTERM)
        assert node.wait() == 0
    settled(cluster)
    begun = Counter(entry["run"] for entry in cluster.journal.entries("begin"))
    assert set(begun.values()) == {1}
    check_exclusion(cluster, {})


def test_nodes_that_are_killed_one_after_the_other_execute_everything(cluster: Cluster) -> None:
    nodes = [start(cluster, f"old {n}", OLD) for n in range(3)]
    killed: dict[int, float] = {}
    for number, node in enumerate(nodes):
        start(cluster, f"new {number}", NEW)
        cluster.journal.wait("begin", node.who, after=time.monotonic(), schedule="limited")
        sent = node.kill()
        # It may have gone on for a moment.
        killed[node.pid] = max(sent, *(e.at for e in cluster.journal.entries(who=node.who)))
    settled(cluster)
    check_exclusion(cluster, killed)
    begun = Counter(entry["run"] for entry in cluster.journal.entries("begin"))
    assert max(begun.values()) > 1  # in the middle of one they were killed
