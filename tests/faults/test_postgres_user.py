"""PostgreSQL: what users do in transactions of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tenure import ConfigError, Fenced, Leases
from tests.faults.postgres import TICK, PostgresCluster, running_cluster, running_server
from tests.faults.support import LONG_TTL, task
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def cluster(server: PostgresServer, tmp_path: Path) -> Iterator[PostgresCluster]:
    with running_cluster(server, tmp_path) as cluster:
        yield cluster


def test_open_transaction_on_one_schedule_does_not_stop_the_others(
    cluster: PostgresCluster,
) -> None:
    # With a ttl whose calls are not given up because the machine is busy.
    cluster.a_node("node", ttl=LONG_TTL, tasks=[TICK, task("locked", 0.25)])
    leading = cluster.leader("node")
    cluster.journal.wait("end", schedule="locked")
    with psycopg.connect(cluster.url) as user:
        user.execute("SELECT * FROM tenure.schedule WHERE name = 'locked' FOR UPDATE")
        cluster.journal.write("locked", "test")
        locked = cluster.journal.wait("locked").at
        for _ in range(8):
            ticked = cluster.journal.wait("end", after=locked, schedule="tick")
            locked = ticked.at
        user.rollback()
        cluster.journal.write("free", "test")
    free = cluster.journal.wait("free").at
    cluster.journal.wait("end", after=free, schedule="locked")
    assert cluster.lease()["term"] == leading["term"]
    assert not cluster.journal.facts("store.unavailable")
    cluster.finish()


def test_fence_in_the_users_own_transaction(cluster: PostgresCluster) -> None:
    with Leases(cluster.url) as leases, psycopg.connect(cluster.url) as user:
        user.execute("CREATE TABLE ledger (entry text)")
        user.commit()
        old = leases.acquire("import", ttl=30)
        assert old is not None
        with user.transaction():
            old.fence(user)
            user.execute("INSERT INTO ledger VALUES ('first')")

        leases.evict("import")
        new = leases.acquire("import", ttl=30)
        assert new is not None
        with user.transaction():
            new.fence(user)
            user.execute("INSERT INTO ledger VALUES ('second')")
        user.execute("INSERT INTO ledger VALUES ('too late')")
        with pytest.raises(Fenced, match="term 1 is over"):
            old.fence(user)
        user.rollback()

        assert user.execute("SELECT entry FROM ledger").fetchall() == [("first",), ("second",)]
        new.release()


def test_fence_waits_for_a_past_holder_that_is_still_writing(cluster: PostgresCluster) -> None:
    """What was fenced before the newer term wrote commits before it, or not at all."""
    with (
        Leases(cluster.url) as leases,
        psycopg.connect(cluster.url) as slow,
        psycopg.connect(cluster.url) as quick,
    ):
        old = leases.acquire("import", ttl=30)
        assert old is not None
        old.fence(slow)
        leases.evict("import")
        new = leases.acquire("import", ttl=30)
        assert new is not None
        quick.execute("SET lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            new.fence(quick)
        quick.rollback()
        slow.commit()
        new.fence(quick)
        quick.commit()
        with pytest.raises(Fenced):
            old.fence(slow)
        slow.rollback()
        new.release()


def test_fence_outside_a_transaction_is_refused(cluster: PostgresCluster) -> None:
    with Leases(cluster.url) as leases, psycopg.connect(cluster.url, autocommit=True) as user:
        lease = leases.acquire("import", ttl=30)
        assert lease is not None
        with pytest.raises(ConfigError, match="autocommit"):
            lease.fence(user)
        with user.transaction():
            lease.fence(user)
        lease.release()
