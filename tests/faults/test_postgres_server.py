"""PostgreSQL: the server itself goes away and comes back, ends sessions, or has a wrong clock."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.postgres import PostgresCluster, running_cluster, running_server
from tests.faults.support import TTL, Program, until
from tests.support import freezing
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults
AT_REST = 0.3
"""A node whose sessions did nothing for so many seconds is in no transaction."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def cluster(server: PostgresServer, tmp_path: Path) -> Iterator[PostgresCluster]:
    with running_cluster(server, tmp_path) as cluster:
        yield cluster


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_server_is_restarted(cluster: PostgresCluster, how: signal.Signals) -> None:
    """Fast shutdown, or as if the power went. Longer than the ttl: nobody may trust itself."""
    cluster.pair()

    cluster.server.stop(how)
    cluster.journal.write("down", "test")
    down = cluster.journal.wait("down").at
    cluster.journal.fact("lease.suspended", "first", after=down)
    for who in ("first", "other"):
        cluster.journal.fact("store.unavailable", who, after=down - TTL)
    cluster.server.start()
    cluster.journal.write("up", "test")
    up = cluster.journal.wait("up").at

    ended = cluster.journal.wait("end", after=up, schedule="tick")
    print(f"first execution after a restart ({how.name}): {ended.at - up:.3f} s")  # noqa: T201
    for who in ("first", "other"):
        cluster.journal.wait("end", who, after=up)  # wake-ups come again as well
    until(lambda: cluster.lease("guard")["holder"], "somebody to hold the guard")
    cluster.finish()


def test_short_restart_is_not_even_noticed_by_idle_connections(cluster: PostgresCluster) -> None:
    """Each idle connection was ended by the server: none of them may fail a call afterwards."""
    node = cluster.a_node("node", ttl=30, tasks=[], settings={"heartbeat": 2, "reap_every": 60})
    cluster.leader("node")
    # Frozen, so that it asks for nothing while there is no server.
    until(lambda: _frozen_at_rest(cluster, node), "all its connections to be idle")
    cluster.server.stop()
    cluster.server.start()
    up = node.thaw()
    # Its polls and the renewal come and go.
    counter = cluster.lease()["counter"]
    until(lambda: cluster.lease()["counter"] > counter, "a renewal")
    assert not cluster.journal.facts("store.unavailable", after=up)
    cluster.finish()


def _frozen_at_rest(cluster: PostgresCluster, node: Program) -> bool:
    """Its sessions did nothing for a while, so it is not between two statements. And it stood at
    the same point twice, where it waits; so it is not between its look at a connection and the call
    that follows either."""
    begun = time.monotonic()
    node.freeze()
    position, waits = freezing.position(node.pid), freezing.waits(node.pid)
    node.thaw()
    until(lambda: _all_went_on(node, waits), "each of its threads to go on, and wait again")
    node.freeze()
    busy = cluster.query(
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid()"
        " AND (state <> 'idle' OR state_change > now() - %s * interval '1 s')",
        time.monotonic() - begun + AT_REST,
    )
    if busy or freezing.position(node.pid) != position:
        node.thaw()
        return False
    return True


def _all_went_on(node: Program, waits: dict[str, int]) -> bool:
    now = freezing.waits(node.pid)
    return all(now[thread] > before for thread, before in waits.items() if thread in now)


def test_sessions_of_a_healthy_holder_ended_by_an_administrator(cluster: PostgresCluster) -> None:
    """A lock is not lost by that. Leadership may move, safely."""
    cluster.pair()
    guarded = cluster.lease("guard")
    for _ in range(3):
        cluster.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        cluster.journal.write("ended", "test")
        ended = cluster.journal.entries("ended", "test")[-1].at
        counter = cluster.lease("guard")["counter"]
        until(lambda seen=counter: cluster.lease("guard")["counter"] > seen + 1, "two renewals")  # type: ignore[misc]
        cluster.journal.wait("end", after=ended, schedule="tick")
    assert cluster.lease("guard")["term"] == guarded["term"]
    assert not cluster.journal.entries("lost")
    assert not cluster.journal.entries("entered", "guard-2")
    moved = len(cluster.journal.facts("leader.took_office")) - 1
    print(f"leadership moved {moved} times in 3 rounds of ended sessions")  # noqa: T201
    cluster.finish()
