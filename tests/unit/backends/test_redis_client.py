"""What becomes of a call to Redis that the driver or asyncio stumbles over."""

from __future__ import annotations

import pytest

from tenure.backends.redis.client import bounded
from tenure.errors import StoreUnavailable


async def fails(error: Exception) -> None:
    raise error


async def test_lost_connection_that_python_cannot_write_to_is_told_as_such() -> None:
    """asyncio of Python 3.12, if the connection was lost a moment ago."""
    stumbled = AttributeError("'NoneType' object has no attribute '_add_writer'")
    with pytest.raises(StoreUnavailable, match="connection to Redis was lost"):
        await bounded(fails(stumbled))


async def test_defect_is_told_as_it_is() -> None:
    with pytest.raises(AttributeError, match="no attribute 'x'"):
        await bounded(fails(AttributeError("'NoneType' object has no attribute 'x'")))
