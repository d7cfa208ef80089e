"""A cluster for every test, none of its processes left behind, and time for a busy machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.support import Cluster

HERE = Path(__file__).parent
LIMIT = 180
"""Of a test, in seconds, unless it has its own. These start many processes and wait for each fact
with a deadline: what is missing is said by that, not by this."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LIMIT))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Processes that share a file in a fresh folder."""
    if sys.platform != "linux":
        pytest.skip("these tests watch processes through /proc")
    made = Cluster(tmp_path)
    try:
        yield made
    finally:
        made.end()
        print(made.logs())  # noqa: T201 - pytest shows it with a failure
