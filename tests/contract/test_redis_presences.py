"""Thousands of nodes, present and past, are listed in few round trips to Redis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tenure.backends.base import FREE_AFTER
from tenure.backends.redis.keys import PAGE
from tenure.backends.redis.leases import RedisLeases
from tenure.model import Grant
from tenure.node.presence import PRESENCE
from tests.contract.redis_harness import open_harness
from tests.support.servers import ValkeyServer

NODES = 5_000


@pytest.fixture(scope="module")
def valkey() -> Iterator[ValkeyServer]:
    server = ValkeyServer(clock=True)
    try:
        yield server.start()
    finally:
        server.close()


@pytest.mark.slow
async def test_presences_are_listed_a_page_at_a_time(valkey: ValkeyServer) -> None:
    async with open_harness(valkey.url, [valkey]) as harness:
        leases = harness.leases
        assert isinstance(leases, RedisLeases)
        grants = [await harness.grant(f"{PRESENCE}{n}", str(n)) for n in range(NODES)]
        await harness.grant("a lock of a user")
        calls = valkey.command("INFO", "commandstats")["cmdstat_evalsha"]["calls"]
        assert len(await leases.all(PRESENCE)) == NODES
        calls = valkey.command("INFO", "commandstats")["cmdstat_evalsha"]["calls"] - calls
        assert calls <= 2 * NODES / PAGE
        for grant in grants[:-1]:
            assert isinstance(grant, Grant)
            assert await leases.release(grant, "left")
        await harness.advance(FREE_AFTER * 2)  # our clock stood still while that took its time
        assert await leases.renew(grants[-1:]) == set(grants[-1:])
        after, dropped, calls = "", 0, 0
        while True:
            part = await leases.forget(PRESENCE, 1e6, free_after=FREE_AFTER, after=after)
            after, dropped, calls = part.after, dropped + part.count, calls + 1
            if not after:
                break
        assert dropped == NODES - 1
        assert calls <= 2 * NODES / PAGE
        assert [record.name for record in await leases.all(PRESENCE)] == [grants[-1].name]
