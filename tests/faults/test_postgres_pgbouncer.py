"""PostgreSQL behind PgBouncer in transaction mode: no session of one's own, so no hints."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from tenure import Leases, Run, Scheduler, TaskFailed
from tenure.backends.base import RUNS, SCHEDULES, lease_topic
from tenure.backends.postgres import PostgresBackend
from tenure.backends.postgres.wakeups import POLL, POLLS_POOLED
from tenure.model import Fence, Grant
from tenure.node.elector import Elector
from tenure.process.identity import new_holder
from tenure.testing import FakeClock
from tenure.testing.contract.harness import adding, firing
from tests.faults.postgres import (
    SLACK,
    PostgresCluster,
    running_cluster,
    running_pooler,
    running_server,
)
from tests.faults.support import TTL, until
from tests.support.pgbouncer import PgBouncer
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture(scope="module")
def pooler(server: PostgresServer) -> Iterator[PgBouncer]:
    with running_pooler(server) as pooler:
        yield pooler


@pytest.fixture
def cluster(server: PostgresServer, tmp_path: Path) -> Iterator[PostgresCluster]:
    with running_cluster(server, tmp_path) as cluster:
        yield cluster


async def test_what_a_process_changes_itself_it_hears_of_at_once(
    server: PostgresServer, pooler: PgBouncer
) -> None:
    """So that its own runs do not start a second late. Time stands still here: nobody polls."""
    url = server.create_database("at_once").replace(str(server.port), str(pooler.port))
    clock, heard = FakeClock(), Counter[str]()
    backend = PostgresBackend(url, clock=clock)
    await backend.open()
    try:
        assert backend.wakeups.pooled
        for topic in (SCHEDULES, RUNS, lease_topic("job")):
            backend.wakeups.subscribe(topic, lambda topic=topic: heard.update([topic]))  # type: ignore[misc]
        await clock.settle()
        heard.clear()
        fence = Fence("leader", 1, "ann")
        assert await backend.office.take(fence) == fence
        [schedule] = await backend.schedules.change([adding("a", await backend.now())])
        assert heard == {SCHEDULES: 1}
        await backend.schedules.fire(fence, [firing(schedule)])
        assert heard == {SCHEDULES: 1, RUNS: 1}
        grant = await backend.leases.acquire("job", new_holder(), 30)
        assert isinstance(grant, Grant)
        assert lease_topic("job") not in heard  # who campaigns would wake itself for ever
        assert await backend.leases.release(grant)
        assert heard[lease_topic("job")] == 1
    finally:
        await backend.close()


@pytest.mark.as_user
def test_who_waits_for_a_lease_looks_every_second(
    server: PostgresServer, pooler: PgBouncer
) -> None:
    url = server.create_database("waiting").replace(str(server.port), str(pooler.port))
    with Leases(url) as ann, Leases(url) as bob:
        lease = ann.acquire("job", ttl=60)
        assert lease is not None
        releasing = threading.Timer(1.5, lease.release)
        releasing.start()
        with bob.hold("job", ttl=60, wait=30) as held:
            assert held.term > lease.term
        releasing.join()


def test_cluster_behind_a_transaction_pooler(cluster: PostgresCluster, pooler: PgBouncer) -> None:
    url = cluster.through(pooler.port)
    nodes = {who: cluster.a_node(who, url=url) for who in ("first", "second", "third")}
    for number in (1, 2):
        cluster.holder(f"guard-{number}", url=url)
    leading = cluster.leader()
    for who in nodes:
        cluster.journal.fact("node.started", who)
    cluster.journal.wait("end", schedule="tick")
    # Nobody else is notified of what was fired; all look for themselves.
    assert cluster.journal.fact("run.started")["late"] < POLLS_POOLED * POLL + SLACK
    holding = cluster.journal.wait("entered")
    assert cluster.lease()["session"] is None  # it would be somebody else's

    killed = cluster.kill(nodes[leading.who])
    cluster.kill(next(p for p in cluster.programs if p.who == holding.who))

    successor = cluster.leader(after=killed)
    assert successor["term"] > leading["term"]
    print(f"takeover after kill -9 behind PgBouncer: {successor.at - killed:.3f} s")  # noqa: T201
    assert successor.at - killed < TTL + 1 + SLACK
    assert {line["term"]: line["reason"] for line in cluster.history()}[
        leading["term"]
    ] == "expired"
    cluster.journal.wait("entered", after=killed)
    cluster.journal.wait("end", after=successor.at)  # whoever looks first executes it
    cluster.stop_all(successor.who)  # hands over
    third = cluster.leader(after=successor.at)
    cluster.journal.wait("end", after=third.at)
    assert not cluster.journal.facts("service.failed")
    cluster.finish()


@pytest.mark.slow
def test_standby_behind_a_transaction_pooler_costs_next_to_nothing(
    server: PostgresServer, pooler: PgBouncer
) -> None:
    url = server.create_database("standbys").replace(str(server.port), str(pooler.port))
    with ExitStack() as stack:
        nodes = [stack.enter_context(_standby(url)) for _ in range(6)]
        electors = [_elector(node) for node in nodes]
        until(lambda: sum(e.leading is not None for e in electors) == 1, "a leader", 60)
        leader = next(e for e in electors if e.leading is not None)
        until(
            lambda: leader.notice is not None and len(leader.notice.deputies) == 3, "deputies", 60
        )
        until(lambda: all(e.notice == leader.notice for e in electors), "all know them", 60)
        before, begun = [_queries(node) for node in nodes], time.monotonic()
        time.sleep(30)  # the time over which they are counted
        seconds = time.monotonic() - begun
        asked = [(_queries(node) - was) / seconds for node, was in zip(nodes, before, strict=True)]
        print(f"transactions a second: {[round(each, 2) for each in asked]}")  # noqa: T201
        for elector, each in zip(electors, asked, strict=True):
            if elector is not leader:
                assert each <= (3 if elector._is_deputy else 1), asked


@contextmanager
def _standby(url: str) -> Iterator[Scheduler]:
    scheduler = Scheduler(url)
    scheduler.task(name="nothing")(lambda: None)
    with scheduler:
        yield scheduler


def _elector(scheduler: Scheduler) -> Elector:
    node = scheduler._runtime.node
    assert node is not None
    return node.elector


def _queries(scheduler: Scheduler) -> int:
    backend = scheduler._runtime._backend
    assert isinstance(backend, PostgresBackend)
    return backend.queries


def test_transactional_tasks_behind_a_transaction_pooler(
    server: PostgresServer, pooler: PgBouncer
) -> None:
    direct = server.create_database("transactional")
    scheduler = Scheduler(direct.replace(str(server.port), str(pooler.port)))
    with psycopg.connect(direct) as connection:
        connection.execute("CREATE TABLE bill (run bigint)")

    @scheduler.task(transactional=True)
    def bill(run: Run, connection: psycopg.Connection) -> str:
        connection.execute("INSERT INTO bill VALUES (%s)", (run.id,))
        connection.execute("SET search_path = nowhere")
        connection.execute("CREATE TEMP TABLE mine (x int)")
        if run.id % 5 == 0:
            raise ZeroDivisionError
        return "billed"

    @scheduler.task(transactional=True)
    def look(connection: psycopg.Connection) -> list[str | None]:
        found = connection.execute(
            "SELECT current_setting('search_path'), to_regclass('pg_temp.mine')::text"
        ).fetchone()
        return list(found or ())

    with scheduler:
        runs = [scheduler.enqueue(bill) for _ in range(20)]
        for run in runs:
            with suppress(TaskFailed):
                assert scheduler.result(run, 60) == "billed"
        for _ in range(10):
            seen = scheduler.result(scheduler.enqueue(look), 60)
            assert seen == ['"$user", public', None]
        states = {run.id: scheduler.get_run(run).state for run in runs}
    with psycopg.connect(direct) as connection:
        billed = [row[0] for row in connection.execute("SELECT run FROM bill ORDER BY run")]
    assert billed == [run for run, state in states.items() if state == "succeeded"]
    assert len(billed) == 16
