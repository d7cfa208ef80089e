"""`pytest tests/simulation --seed 42` replays one history instead of many."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=None, help="replay this one simulated history")


@pytest.fixture
def only_seed(request: pytest.FixtureRequest) -> int | None:
    seed: int | None = request.config.getoption("--seed")
    return seed
