"""PostgreSQL: many start at once, on an empty database; old and new code side by side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tenure import Leases, SchemaMismatch, StoreError
from tests.faults.postgres import PostgresCluster, running_cluster, running_server
from tests.faults.support import LEADER
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults

STARTS = 20


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def cluster(server: PostgresServer, tmp_path: Path) -> Iterator[PostgresCluster]:
    with running_cluster(server, tmp_path) as cluster:
        yield cluster


def test_twenty_simultaneous_starts_on_an_empty_database(cluster: PostgresCluster) -> None:
    gate = cluster.folder / "gate"
    names = [f"node-{number}" for number in range(STARTS)]
    for who in names:
        cluster.a_node(who, gate=str(gate), ttl=10)
    for who in names:
        cluster.journal.wait("imported", who, within=60)

    gate.touch()

    for who in names:
        cluster.journal.fact("node.started", who, within=60)
    leading = cluster.leader()
    cluster.journal.wait("end", after=leading.at, schedule="tick")
    assert len(cluster.journal.facts("leader.took_office")) == 1
    assert [s["version"] for s in cluster.query("SELECT version FROM tenure.schedule")] == [1]
    assert len(cluster.query("SELECT * FROM tenure.edition")) == 1
    assert not cluster.journal.facts("service.failed")
    cluster.finish()


def test_newer_code_migrates_while_older_code_goes_on(cluster: PostgresCluster) -> None:
    cluster.a_node("old")
    leading = cluster.leader("old")
    cluster.a_node("new", newer=True)
    started = cluster.journal.fact("node.started", "new")
    numbers = [r["number"] for r in cluster.query("SELECT number FROM tenure.migration")]
    assert max(numbers) == 9999
    # Older code leads on over newer tables, and starts on them too.
    cluster.a_node("late")
    late = cluster.journal.fact("node.started", "late")
    cluster.journal.wait("end", after=max(started.at, late.at), schedule="tick")
    assert cluster.lease()["term"] == leading["term"]
    cluster.stop_all("old")
    successor = cluster.leader(after=leading.at)
    cluster.journal.wait("end", after=successor.at, schedule="tick")
    cluster.finish()


def test_tables_that_do_not_serve_this_code_are_refused_unchanged(
    cluster: PostgresCluster,
) -> None:
    with Leases(cluster.url) as leases:
        leases.acquire("made")
    cluster.query("UPDATE tenure.meta SET value = '9999' WHERE key = 'serves'")
    with pytest.raises(SchemaMismatch, match="Upgrade the tenure package"):
        Leases(cluster.url).acquire("refused")


def test_role_that_may_not_create_tables(cluster: PostgresCluster) -> None:
    """It is told what to do; and once the owner has migrated, it works."""
    cluster.query("CREATE ROLE modest LOGIN")
    url = cluster.through(cluster.server.port, "modest")
    with pytest.raises(SchemaMismatch, match="Run `tenure migrate --url postgresql:"):
        Leases(url, migrate=False).acquire("refused")
    with pytest.raises(StoreError, match="permission denied"):
        Leases(url).acquire("refused")

    with Leases(cluster.url) as owner:
        owner.acquire("made")
    with pytest.raises(StoreError, match=r"the role .modest.: .*migrate --roles"):
        Leases(url, migrate=False).acquire("refused")
    _grant(cluster, "modest")
    cluster.a_node("node", url=url)
    cluster.leader("node")
    cluster.journal.wait("end", schedule="tick")
    cluster.finish()


def test_nodes_of_different_roles_that_may_not_see_each_other(cluster: PostgresCluster) -> None:
    """Neither may read the other's activity, nor end its sessions."""
    with Leases(cluster.url) as owner:
        owner.acquire("made")
    for role in ("role_a", "role_b"):
        cluster.query(f"CREATE ROLE {role} LOGIN")
        _grant(cluster, role)
    first = cluster.a_node("first", url=cluster.through(cluster.server.port, "role_a"))
    leading = cluster.leader("first")
    cluster.a_node("other", url=cluster.through(cluster.server.port, "role_b"))
    cluster.journal.fact("node.started", "other")

    killed = cluster.kill(first)

    successor = cluster.leader("other", after=killed)
    assert successor["term"] > leading["term"]
    print(f"takeover between roles: {successor.at - killed:.3f} s")  # noqa: T201
    cluster.journal.wait("end", "other", after=successor.at)
    cluster.finish()


def test_office_locked_by_a_session_that_is_not_ours_is_named(cluster: PostgresCluster) -> None:
    first = cluster.a_node("first")
    cluster.leader("first")
    cluster.journal.wait("end", schedule="tick")
    with psycopg.connect(cluster.url, application_name="somebody") as stranger:
        stranger.execute("SELECT * FROM tenure.fence FOR SHARE")
        cluster.a_node("other")
        cluster.journal.fact("node.started", "other")
        killed = cluster.kill(first)
        told = cluster.journal.unavailable("'somebody'", "other", killed, service="elector")
        assert f"pid {stranger.info.backend_pid}" in told["error"]
        assert cluster.query("SELECT 1 FROM tenure.lease WHERE name = %s", LEADER)
    cluster.leader("other", after=killed)
    cluster.finish()


def test_an_operator_who_holds_the_fence_is_named_and_firing_goes_on_afterwards(
    cluster: PostgresCluster,
) -> None:
    cluster.a_node("node")
    leading = cluster.leader("node")
    cluster.journal.wait("end", schedule="tick")
    with psycopg.connect(cluster.url, application_name="psql of eve") as operator:
        operator.execute("SELECT * FROM tenure.fence FOR UPDATE")
        told = cluster.journal.unavailable("'psql of eve'", "node", service="ticker")
        assert f"pid {operator.info.backend_pid} (role 'tenure'" in told["error"]
    cluster.journal.wait("end", schedule="tick", after=told.at)
    assert cluster.lease()["term"] == leading["term"]
    cluster.finish()


def _grant(cluster: PostgresCluster, role: str) -> None:
    for right in (
        "USAGE ON SCHEMA tenure",
        "SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tenure",
        "USAGE ON ALL SEQUENCES IN SCHEMA tenure",
    ):
        cluster.query(f"GRANT {right} TO {role}")
