"""A cluster is moved to another store, and each nominal time is accounted for once across both.

`scripts/torture copy` does the same with ten times as many schedules.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure.copying.copier import ABORTED, CLEARED, STEPS
from tests.faults.accounting import account
from tests.faults.moving import AFTER, BACK, BEFORE, Move
from tests.faults.postgres import PostgresCluster, running_cluster
from tests.faults.support import Cluster, Store
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults


def test_no_step_is_left_out() -> None:
    assert {*BEFORE, *AFTER} >= set(STEPS)
    assert {(CLEARED, True), (ABORTED, True)} <= set(BACK)


def test_to_postgresql_with_the_copier_killed_at_every_step(
    cluster: Cluster, postgres: PostgresServer, tmp_path: Path
) -> None:
    target = PostgresCluster(tmp_path, postgres)
    Move(cluster, target.url, schedules=20).through()
    assert account(cluster.journal, target.copy()) == []


def test_back_to_a_file_with_the_copier_killed_at_every_step(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    file = tmp_path / "new.db"
    with running_cluster(postgres, tmp_path) as source:
        Move(source, f"sqlite:///{file}", schedules=20).through()
        assert account(source.journal, Store(file)) == []
