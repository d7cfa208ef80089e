"""A cluster for every test, and none of its processes left behind."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.postgres import PostgresCluster
from tests.faults.support import Cluster


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Processes that share a file in a fresh folder; or a database, if a test asks for that."""
    if sys.platform != "linux":
        pytest.skip("these tests watch processes through /proc")
    if getattr(request, "param", "sqlite") == "postgres":
        made: Cluster = PostgresCluster(tmp_path, request.getfixturevalue("postgres"))
    else:
        made = Cluster(tmp_path)
    try:
        yield made
    finally:
        made.end()
        print(made.logs())  # noqa: T201 - pytest shows it with a failure
