"""Opening and closing: a backend object is used once."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from tenure.errors import StoreError
from tenure.testing.contract.harness import LeaseHarness

PATIENCE = 30.0


class OpeningContract:
    """What `open` and `close` promise beside a connection."""

    async def test_backend_is_opened_once(self, harness: LeaseHarness) -> None:
        backend = await harness.another()
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(StoreError, match="opened only once"):
                await backend.open()
            assert await backend.leases.read("job") is None, "it stays open"
            await backend.close()
            await backend.close()
            with pytest.raises(StoreError, match="opened only once"):
                await backend.open()

    async def test_nobody_waits_for_a_backend_that_was_closed(self, harness: LeaseHarness) -> None:
        backend = await harness.another()
        await backend.leases.read("job")
        await backend.close()
        async with asyncio.timeout(PATIENCE):
            with suppress(StoreError):
                assert await backend.leases.read("job") is None
            with suppress(StoreError):
                await backend.now()
        await harness.grant("job", "ann")
