"""Nodes with the rights of a node and no others, from their first day to their last."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tenure.backends.postgres import PostgresBackend
from tests.faults.postgres import TICK, PostgresCluster, running_cluster, running_server
from tests.faults.support import task, until
from tests.support.roles import RoleStore
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def cluster(server: PostgresServer, tmp_path: Path) -> Iterator[PostgresCluster]:
    with running_cluster(server, tmp_path) as cluster:
        store = RoleStore(cluster.url).made()
        store.close()
        yield cluster


def _node(cluster: PostgresCluster) -> str:
    return cluster.through(cluster.server.port, "tenure_node")


def test_whole_life_of_nodes_with_the_rights_of_a_node(cluster: PostgresCluster) -> None:
    """They declare, lead, fire and execute; one is killed at work, and its run is recovered; what
    is old is pruned; those that stop hand over."""
    long = task("long", 0.5, until="go", on_crash="rerun")
    options = {
        "url": _node(cluster),
        "migrate": False,
        "tasks": [TICK, long],
        "settings": {"retention": 1.0, "jump_hold": 0.5},
    }
    first = cluster.a_node("first", **options)
    leading = cluster.leader("first")
    cluster.journal.wait("begin", "first", schedule="long")
    cluster.journal.wait("end", "first", schedule="tick")

    cluster.a_node("other", **options)
    cluster.journal.fact("node.started", "other")
    killed = cluster.kill(first)

    successor = cluster.leader("other", after=killed)
    assert successor["term"] > leading["term"]
    again = cluster.journal.wait("end", "other", after=killed, schedule="long")
    assert again["attempt"] == 2
    cluster.journal.wait("end", "other", after=successor.at, schedule="tick")
    pruned = "SELECT pruned_to FROM tenure.history"
    until(lambda: cluster.query(pruned), "what was pruned on record")

    cluster.a_node("third", **options)
    cluster.journal.fact("node.started", "third")
    for who in ("other", "third"):
        cluster.tell(who, "go")
    cluster.stop_all("other")
    last = cluster.leader("third", after=successor.at)
    assert last["term"] > successor["term"]
    roles = cluster.query(
        "SELECT DISTINCT usename FROM pg_stat_activity WHERE application_name LIKE 'tenure%%'"
    )
    assert [row["usename"] for row in roles] == ["tenure_node"]
    refusals = [
        fact for fact in cluster.journal.facts("store.unavailable") if "refused" in fact["error"]
    ]
    assert refusals == []
    cluster.stop_all("third")
    for program in cluster.programs:
        program.wait()


LAID = """
INSERT INTO tenure.occurrence (
    namespace, schedule_uid, kind, key, nominal, last, state, recorded_at, term)
SELECT s.namespace, s.uid, 'planned', ((extract(epoch FROM t.at) * 1000000)::bigint)::text,
    t.at, t.at, 'missed', now(), 0
FROM tenure.schedule s, LATERAL (
    SELECT s.next_nominal + g * interval '0.25 s' AS at FROM generate_series(0, 500) g) t
WHERE s.name = 'victim'
ON CONFLICT DO NOTHING
"""


def test_editor_with_an_open_transaction_holds_up_what_it_edits_alone(
    cluster: PostgresCluster,
) -> None:
    """What it has inserted, and not committed, the leader's firing would have to wait for."""
    cluster.a_node("node", url=_node(cluster), tasks=[TICK, task("victim", 0.25)])
    leading = cluster.leader("node")
    cluster.journal.wait("end", schedule="victim")
    with psycopg.connect(cluster.through(cluster.server.port, "tenure_editor")) as editor:
        editor.execute(LAID)
        editing = f"pid {editor.info.backend_pid} (role 'tenure_editor'"
        held = cluster.journal.unavailable(editing, "node")
        put_off = cluster.journal.fact("schedule.put_off", "node")
        for told in (held["error"], put_off["reason"]):
            assert editing in told
            assert f"pg_terminate_backend({editor.info.backend_pid})" in told
        print(f"put off {put_off.at - held.at:.3f} s after it was met")  # noqa: T201
        assert put_off.at - held.at < 30
        findings = asyncio.run(PostgresBackend(_node(cluster)).diagnose())
        [found] = [each for each in findings if each.check == "open transactions"]
        assert editing in found.text
        at = put_off.at
        for _ in range(8):
            at = cluster.journal.wait("end", after=at, schedule="tick").at
        editor.rollback()
    findings = asyncio.run(PostgresBackend(_node(cluster)).diagnose())
    assert not [each for each in findings if each.check == "open transactions"]
    assert cluster.lease()["term"] == leading["term"]
    cluster.stop_all("node")


def test_frozen_leader_of_another_login_is_waited_for(cluster: PostgresCluster) -> None:
    """Its session is not the successor's to end, which is told; the server's own limits end it."""
    for login in ("login_a", "login_b"):
        cluster.query(f"CREATE ROLE {login} LOGIN IN ROLE tenure_node")
    url = cluster.through(cluster.server.port, "login_a")
    first = cluster.a_node("first", url=url, stops=True)
    leading = cluster.leader("first")
    cluster.journal.wait("end", "first", schedule="tick")
    cluster.a_node("other", url=cluster.through(cluster.server.port, "login_b"))
    cluster.journal.fact("node.started", "other")
    cluster.tell("first", "stop-1")
    stopped = cluster.journal.wait("stopping", "first")

    successor = cluster.leader("other", after=stopped.at)
    assert successor["term"] > leading["term"]
    cluster.journal.wait("end", "other", after=successor.at)
    print(f"takeover between logins: {successor.at - stopped.at:.3f} s")  # noqa: T201
    first.kill()
    cluster.stop_all("other")
