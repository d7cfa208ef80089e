"""A server that has no more connections than one has by default."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest

from tenure import Scheduler, every, single_instance
from tenure.errors import StoreUnavailable
from tenure.facts import Fact
from tests.faults.support import until
from tests.support.servers import PostgresServer

pytestmark = [pytest.mark.faults, pytest.mark.slow]
NODES = 30
BY_DEFAULT = 100


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    server = PostgresServer(fsync="off", max_connections=str(BY_DEFAULT))
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.create_database()


def sessions(line: psycopg.Connection, url: str) -> int:
    query = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = %s AND backend_type = 'client backend'"
    )
    row = line.execute(query, (url.rpartition("/")[2],)).fetchone()
    assert row is not None
    return int(row[0])


def test_thirty_schedulers_on_a_default_server(server: PostgresServer, url: str) -> None:
    """Each with a thread and connections of its own, as thirty processes would have."""
    done: list[int] = []
    told: list[Fact] = []
    with ExitStack() as stack:
        line = stack.enter_context(psycopg.connect(server.url, autocommit=True))
        nodes = [Scheduler(url, app="crowd") for _ in range(NODES)]
        for number, node in enumerate(nodes):
            node.task(every(seconds=1), name="tick")(lambda number=number: done.append(number))
            node.on("store.unavailable", told.append)
        starting = [threading.Thread(target=node.start) for node in nodes]
        for node in nodes:
            stack.callback(node.stop)
        most = 0
        for thread in starting:
            thread.start()
        while any(thread.is_alive() for thread in starting):
            most = max(most, sessions(line, url))
            time.sleep(0.05)
        assert all(node.running for node in nodes)
        until(lambda: sum(node.is_leader for node in nodes) == 1, "a leader")
        until(lambda: len(done) >= 3, "three runs")
        most = max(most, sessions(line, url))
        until(
            lambda: sessions(line, url) <= 2 * NODES + 3 + 2,
            "connections that are not needed close",
        )
        print(f"{NODES} schedulers: {most} connections at the most, {sessions(line, url)} at rest")  # noqa: T201
        # Those that a process has closed are counted until the server has noticed.
        assert most < BY_DEFAULT
        assert told == [], "somebody got none"


def test_a_node_that_gets_no_connection_tries_again(server: PostgresServer, url: str) -> None:
    done: list[float] = []
    told: list[Fact] = []
    node = Scheduler(url)
    node.task(every(seconds=1), name="tick")(lambda: done.append(time.monotonic()))
    node.on("store.*", told.append)
    with psycopg.connect(server.url, autocommit=True) as line, node:
        until(lambda: done, "a run")
        refused = False
        while not refused:
            told.clear()
            with ExitStack() as others:

                def squeezed(others: ExitStack = others) -> bool:
                    """All of its connections but the one for heartbeats are ended, and taken by
                    others. The node may be faster, so this is done until it has failed."""
                    if sessions(line, url) > 1:
                        _end(line, url)
                    _use_up(others, server)
                    return _told(told, "store.unavailable")

                until(squeezed, "that it has no connection")
                # Only the first failure is told, and that may be the end of a connection.
                refused = any("max_connections" in str(fact.values()) for fact in told)
                if refused:
                    assert node.is_leader  # its heartbeats go on
                    with pytest.raises(StoreUnavailable, match="max_connections") as error:
                        single_instance(url, "guard").__enter__()
                    assert "PgBouncer" in str(error.value)
            until(lambda: _told(told, "store.recovered"), "that it has recovered")
        before = len(done)
        until(lambda: len(done) > before + 1, "runs again")
        assert node.is_leader


def _told(told: list[Fact], name: str) -> bool:
    return any(fact.name == name for fact in told)


def _use_up(others: ExitStack, server: PostgresServer) -> None:
    """Take all connections that the server has left."""
    for _ in range(BY_DEFAULT):
        try:
            others.enter_context(psycopg.connect(server.url))
        except psycopg.OperationalError:
            return


def _end(line: psycopg.Connection, url: str) -> None:
    line.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = %s AND application_name <> 'tenure leases'",
        (url.rpartition("/")[2],),
    )
