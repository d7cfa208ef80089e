"""The alerts that are shipped, in a real Prometheus that scrapes real nodes in real trouble."""

from __future__ import annotations

import pytest

from tenure import Event, Scheduler
from tests.faults.relaying import SECRET
from tests.faults.support import TTL, Cluster, task, until
from tests.support.prometheus import Prometheus
from tests.support.servers import free_port, release_port

pytestmark = pytest.mark.faults

DAYS_AGO = 8 * 86_400 * 1_000_000
NOWHERE = f"webhook+http://127.0.0.1:9/#secret={SECRET}&timeout=1"


def test_alerts_fire_when_they_should(cluster: Cluster) -> None:
    port = free_port()
    relay = {"url": NOWHERE, "name": "hook", "allow_http": True, "allow_private": True}
    tasks = (
        task("tick", 0.25),
        task("long", 0.5, until="enough", overlap="queue"),
        task("hangs", 0.5, until="enough", timeout=0.2),
        task("fails", 0.5, work=60, coroutine=True, timeout=0.1),
    )
    options = {"ttl": TTL, "health": f"127.0.0.1:{port}", "relays": [relay], "survey": 0.5}
    with Prometheus([port]) as prometheus:
        node = cluster.node("a", *tasks, **options)
        cluster.journal.wait("begin", "a", schedule="long")
        cluster.journal.wait("end", "a", schedule="tick")
        with cluster.store.connect() as connection:
            # Something that should have been deleted long ago.
            connection.execute(
                "UPDATE tenure_run SET finished_at = finished_at - :ago,"
                " created_at = created_at - :ago WHERE state = 'succeeded'",
                {"ago": DAYS_AGO},
            )
        Scheduler(cluster.url).emit(Event("ledger", "MonthEnded", {}))
        prometheus.wait("TenureLockStuck", "TenureRetentionBehind", "TenureRelayDown")
        prometheus.wait("TenureRunsWait", "TenureRunHung", "TenureRunsFailed")
        assert "TenureNoLeader" not in prometheus.firing()
        with cluster.store.write_lock():  # nobody else can write
            prometheus.wait("TenureStoreAway", "TenureNoLeader")
        until(lambda: "TenureStoreAway" not in prometheus.firing(), "the end of the outage")
        until(lambda: "TenureNoLeader" not in prometheus.firing(), "a leader again")
        node.kill()
        prometheus.wait("TenureNoLeader")
    release_port(port)
