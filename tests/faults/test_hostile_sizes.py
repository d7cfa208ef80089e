"""An editor who writes rows of many megabytes: others fire and run all the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from psycopg.errors import CheckViolation

from tests.faults.postgres import TICK, PostgresCluster, running_cluster, running_server
from tests.faults.support import task
from tests.support.roles import RoleStore
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults

LARGE = 200_000_000
"""Characters: more than is read within the time of a call on a busy machine."""


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


ATTACKS = {
    "trigger": [
        "UPDATE tenure.schedule SET trigger = repeat('x', %(large)s) WHERE name = 'victim'"
    ],
    "tenant": ["UPDATE tenure.schedule SET tenant = repeat('x', 2000) WHERE name = 'victim'"],
    "arguments": [
        """UPDATE tenure.schedule SET kwargs = '{"a":"' || repeat('x', %(large)s) || '"}'
        WHERE name = 'victim'""",
        "SELECT tenure.run_now('victim', key => 'large')",
    ],
    "reason": [
        "UPDATE tenure.schedule SET reason = repeat('x', %(large)s) WHERE name = 'victim'",
        "SELECT tenure.run_now('victim', key => 'reason')",
    ],
    "run": [
        """INSERT INTO tenure.run (namespace, schedule, schedule_uid, kind, key, nominal, task,
            kwargs, state, due, attempt, crashes, priority, retries, on_crash, term, created_at)
        SELECT namespace, name, uid, 'manual', repeat('x', %(large)s), now(), task,
            kwargs, 'waiting', now(), 0, 0, 0, 0, on_crash, 0, now()
        FROM tenure.schedule WHERE name = 'victim'""",
    ],
    "trace": [
        """INSERT INTO tenure.run (namespace, schedule, schedule_uid, kind, key, nominal, task,
            kwargs, state, due, attempt, crashes, priority, retries, on_crash, term, created_at,
            traceparent)
        SELECT namespace, name, uid, 'manual', 'trace', now(), task,
            kwargs, 'waiting', now(), 0, 0, 0, 0, on_crash, 0, now(), repeat('x', %(large)s)
        FROM tenure.schedule WHERE name = 'victim'""",
    ],
    "error": [
        "SELECT tenure.run_now('victim', key => 'error')",
        "UPDATE tenure.run SET error = repeat('x', %(large)s) WHERE state = 'waiting'",
    ],
    "at the limit": [
        "UPDATE tenure.schedule SET trigger = repeat('x', 1500000) WHERE name = 'victim'",
        """UPDATE tenure.schedule
        SET overlap = 'allow', kwargs = '{"a":"' || repeat('x', 1499000) || '"}'
        WHERE name = 'victim'""",
        """INSERT INTO tenure.run (namespace, schedule, schedule_uid, kind, key, nominal, task,
            kwargs, state, due, attempt, crashes, priority, retries, on_crash, term, created_at)
        SELECT namespace, name, uid, 'manual', 'at the limit ' || n, now(), task,
            kwargs, 'waiting', now(), 0, 0, 0, 0, on_crash, 0, now()
        FROM tenure.schedule, generate_series(1, 20) n WHERE name = 'victim'""",
    ],
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_row_of_an_editor_that_is_too_large_to_read(cluster: PostgresCluster, attack: str) -> None:
    """It is refused, or does no harm."""
    url = cluster.through(cluster.server.port, "tenure_node")
    cluster.a_node("node", url=url, tasks=[TICK, task("victim", 3600.0)])
    leading = cluster.leader("node")
    cluster.journal.wait("end", schedule="tick")
    with psycopg.connect(
        cluster.through(cluster.server.port, "tenure_editor"), autocommit=True
    ) as editor:
        for statement in ATTACKS[attack]:
            with suppress(CheckViolation):
                editor.execute(statement.encode(), {"large": LARGE})
        editor.execute("UPDATE tenure.schedule SET next_due = now() WHERE name = 'victim'")
        at = cluster.journal.entries("end", schedule="tick")[-1].at
        for _ in range(20):
            at = cluster.journal.wait("end", after=at, schedule="tick").at
    assert cluster.lease()["term"] == leading["term"]
    cluster.stop_all("node")


LIMITS = {
    "namespace": "schedule_size",
    "name": "schedule_size",
    "tenant": "schedule_size",
    "task": "schedule_size",
    "kwargs": "schedule_size",
    "lock": "schedule_size",
    "lock_rule": "schedule_size",
    "overlap": "schedule_size",
    "definition": "schedule_size",
    "trigger": "schedule_trigger_size",
    "reason": "schedule_reason_size",
}


def test_schedule_that_is_too_large_is_refused(cluster: PostgresCluster) -> None:
    with psycopg.connect(cluster.url, autocommit=True) as admin:
        admin.execute("SELECT tenure.add_schedule('a', 'every 1h', 'pack')")
        for column, limit in LIMITS.items():
            with pytest.raises(CheckViolation, match=f'"{limit}"'):
                admin.execute(
                    f"UPDATE tenure.schedule SET {column} = repeat('x', 1500001)".encode()
                )
