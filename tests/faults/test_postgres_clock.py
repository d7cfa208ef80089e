"""PostgreSQL: the server's clock is moved by an hour, forward and back. No lease moves with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tenure import Scheduler, Settings
from tenure.facts import ClockAccepted, Fact
from tenure.node import reaper
from tests.faults.postgres import PostgresCluster, missing, running_cluster
from tests.faults.support import LONG_TTL, TTL, until
from tests.faults.test_clock import WallClock
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults

HOUR = 3600
SETTINGS = {"jump_hold": 60.0}


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    server = PostgresServer(fsync="off")
    server.environment = _wall(server).env
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
def wall(server: PostgresServer) -> WallClock:
    return _wall(server)


def _wall(server: PostgresServer) -> WallClock:
    return WallClock(server.folder / "wall")  # the server is another user, and must read it


@pytest.fixture
def cluster(server: PostgresServer, tmp_path: Path) -> Iterator[PostgresCluster]:
    with running_cluster(server, tmp_path) as cluster:
        yield cluster


def test_clock_of_the_server_is_moved(cluster: PostgresCluster, wall: WallClock) -> None:
    first = cluster.a_node("first", settings=SETTINGS)
    cluster.holder("guard-1")
    leading = cluster.leader("first")
    guarded = cluster.journal.wait("entered", "guard-1")
    cluster.a_node("other", settings=SETTINGS)
    cluster.holder("guard-2")
    cluster.journal.fact("node.started", "other")
    cluster.journal.wait("asked", "guard-2")
    cluster.journal.wait("end", schedule="tick")

    for offset in (HOUR, 0, -HOUR, 0):
        before = cluster.query("SELECT now() AS now")[0]["now"]
        wall.set(offset)
        now = cluster.query("SELECT now() AS now")[0]["now"]
        if abs((now - before).total_seconds()) < HOUR / 2:
            missing("libfaketime does not move the clock of this PostgreSQL")
        counter = cluster.lease()["counter"]
        # Long enough for whoever judges by the server's clock to take over by mistake.
        renewals = counter + int(TTL / (TTL / 5))
        until(lambda least=renewals: cluster.lease()["counter"] > least, "renewals")  # type: ignore[misc]
        if offset == HOUR:
            assert cluster.journal.fact("clock.jumped", "first")["held"] is True
    assert cluster.lease()["term"] == leading["term"]
    assert cluster.lease("guard")["term"] == guarded["term"]
    assert not cluster.journal.facts("lease.lost")

    # The leader holds back what an hour's jump made due. One that has not seen it goes on.
    killed = cluster.kill(first)
    successor = cluster.leader("other", after=killed)
    cluster.journal.wait("end", "other", after=successor.at, schedule="tick")
    cluster.finish()


def test_no_history_is_removed_while_the_clock_of_the_server_is_in_doubt(
    server: PostgresServer, wall: WallClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It jumps by more than the retention."""
    monkeypatch.setattr(reaper, "PRUNE_EVERY", 0.1)
    url, told = server.create_database("doubt"), list[Fact]()
    settings = Settings(ttl=LONG_TTL, reap_every=0.1, retention=HOUR / 2, jump_hold=2.0)
    scheduler = Scheduler(url, settings=settings)
    scheduler.on("*", told.append)
    scheduler.task(nothing)
    with scheduler, psycopg.connect(url, autocommit=True) as eyes:
        scheduler.result(scheduler.enqueue(nothing), 30)
        eyes.execute(_OLD)
        until(lambda: eyes.execute(_COUNT).fetchone() == (0,), "what is old is removed")
        scheduler.result(scheduler.enqueue(nothing), 30)
        wall.set(HOUR)
        try:
            until(lambda: eyes.execute(_COUNT).fetchone() == (0,), "what seems old is removed")
            assert [fact for fact in told if isinstance(fact, ClockAccepted)]
        finally:
            wall.set(0)


def nothing() -> None: ...


_COUNT = "SELECT count(*) FROM tenure.run"
_OLD = """
UPDATE tenure.run SET created_at = created_at - interval '1 hour',
                      finished_at = finished_at - interval '1 hour'
"""
