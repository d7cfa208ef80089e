"""Everything at once: 200 schedules each second, while their leaders come to harm in turn.

One round here; `scripts/torture` goes on for as long as one likes. Whatever happens: no occurrence
is fired twice, none is unaccounted for, none is early.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.postgres import PostgresCluster, running_cluster, running_server
from tests.faults.support import TTL, Cluster, Program, task, until
from tests.support.proxy import Proxy
from tests.support.servers import PostgresServer

SECONDS = float(os.environ.get("TENURE_TORTURE", "0"))
pytestmark = [pytest.mark.faults, pytest.mark.timeout(SECONDS + 180)]

MANY = [
    task(f"t{i}", 1.0, catch_up=("latest", "all", "none")[i % 3], overlap=("skip", "queue")[i % 2])
    for i in range(200)
]
CALM = 1.5


class Torture:
    """Three nodes; whoever leads is harmed, and replaced if it died."""

    def __init__(self, cluster: Cluster, start: Callable[[str], Program]) -> None:
        self.cluster = cluster
        self._start = start
        self._count = 0
        self.programs: dict[str, Program] = {}
        self.add()
        self.leader()
        for _ in range(2):
            self.add()

    def add(self) -> None:
        self._count += 1
        who = f"node-{self._count}"
        self.programs[who] = self._start(who)

    def leader(self, after: float = float("-inf")) -> str:
        found = self.cluster.leader(list(self.programs), after=after)
        return found.who

    def latest(self) -> str:
        """Who took office last, and lives."""

        def look() -> str | None:
            who = self.cluster.journal.facts("leader.took_office")[-1].who
            return who if who in self.programs else None

        return until(look, "a leader")

    def kill(self) -> None:
        who = self.latest()
        self.programs.pop(who).kill()
        self.add()

    def freeze(self) -> None:
        program = self.programs[self.latest()]
        at = program.freeze()
        while self._blocks():  # inside a write of SQLite it stops everybody: that is not promised
            program.thaw()
            time.sleep(0.05)
            at = program.freeze()
        try:
            others = [who for who in self.programs if self.programs[who] is not program]
            self.cluster.leader(others, after=at)
        finally:
            program.thaw()

    def _blocks(self) -> bool:
        return not isinstance(self.cluster, PostgresCluster) and self.cluster.store.locked

    def run(self, harms: list[Callable[[], None]]) -> None:
        self.cluster.journal.wait("end")
        end = time.monotonic() + SECONDS
        while True:
            for harm in harms:
                time.sleep(CALM)
                self.cluster.journal.write("harm", "test", what=harm.__name__)
                harm()
            if time.monotonic() >= end:
                break
        # The last one has been survived when a leader fires and somebody executes, once more.
        self.cluster.journal.write("over", "test")
        over = self.cluster.journal.wait("over").at
        self.cluster.journal.wait("end", after=over + TTL + 2)
        self.cluster.stop_all(*self.programs)
        for program in self.programs.values():
            program.wait()


def test_sqlite(cluster: Cluster) -> None:
    torture = Torture(cluster, lambda who: cluster.node(who, *MANY, ttl=TTL))
    torture.run([torture.kill, torture.freeze])
    assert cluster.complaints() == []
    assert cluster.store.sound()


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


def test_postgresql(server: PostgresServer, tmp_path: Path) -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(running_cluster(server, tmp_path))
        lines: dict[str, Proxy] = {}

        def start(who: str) -> Program:
            lines[who] = stack.enter_context(Proxy(server.port))
            url = cluster.through(lines[who].port)
            return cluster.a_node(who, url=url, tasks=MANY)

        torture = Torture(cluster, start)

        def cut_off() -> None:
            who = torture.latest()
            lines[who].become("half-open")
            others = [other for other in torture.programs if other != who]
            try:
                cluster.leader(others, after=cluster.journal.entries("harm")[-1].at)
            finally:
                lines[who].become("pass")

        def restart() -> None:
            server.stop(signal.SIGKILL)
            server.start()

        torture.run([torture.kill, torture.freeze, cut_off, restart])
        until(lambda: not _backlog(cluster), "nothing to be due")
        assert cluster.complaints() == []


def _backlog(cluster: PostgresCluster) -> int:
    """Of runs that a stopped cluster left claimed: none."""
    (row,) = cluster.query("SELECT count(*) AS n FROM tenure.run WHERE state = 'claimed'")
    return int(row["n"])
