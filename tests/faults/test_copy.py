"""A cluster is moved to another store, and each nominal time is accounted for once across both.

`scripts/torture copy` does the same with ten times as many schedules.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure.copying.copier import DRAINED, WRITTEN
from tests.faults.accounting import account
from tests.faults.moving import Move
from tests.faults.postgres import PostgresCluster
from tests.faults.support import Cluster, Store
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults


def test_to_postgresql_with_the_copier_killed_at_every_step(
    cluster: Cluster, postgres: PostgresServer, tmp_path: Path
) -> None:
    target = PostgresCluster(tmp_path, postgres)
    Move(cluster, target.url, schedules=20).through()
    assert account(cluster.journal, target.copy()) == []


def test_back_to_a_file(postgres: PostgresServer, tmp_path: Path) -> None:
    source = PostgresCluster(tmp_path, postgres)
    file = tmp_path / "new.db"
    try:
        Move(source, f"sqlite:///{file}", schedules=4).through((), (DRAINED, WRITTEN))
        assert account(source.journal, Store(file)) == []
    finally:
        source.end()
