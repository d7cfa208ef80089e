"""`pytest tests/simulation --seed 42` replays one history instead of many."""

from __future__ import annotations

import pytest


@pytest.fixture
def only_seed(request: pytest.FixtureRequest) -> int | None:
    seed: int | None = request.config.getoption("--seed")
    return seed
