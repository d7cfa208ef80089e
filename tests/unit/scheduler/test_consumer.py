"""A consumer of a store in which nobody has a transaction."""

from __future__ import annotations

import pytest

from tenure import Scheduler
from tenure.errors import ConfigError


def test_store_without_transactions_is_refused() -> None:
    scheduler = Scheduler("memory://")
    with (
        pytest.raises(ConfigError, match="in a transaction of yours, and memory"),
        scheduler.consumer("ledger", group="billing"),
    ):
        pytest.fail("it opened")
    scheduler.stop()
