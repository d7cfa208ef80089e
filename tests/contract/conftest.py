"""More time for the state machines: hundreds of calls each, on a server that others use too."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE and "Machine" in item.nodeid:
            item.add_marker(pytest.mark.timeout(300))
