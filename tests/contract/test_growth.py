"""What leases leave behind stays bounded on every store, however many names come and go."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from tenure import Leases
from tenure.backends.base import FREE_AFTER, KEPT_LINES
from tenure.facts import Facts
from tenure.node.pruner import EVERY_ACQUIRES, Pruner
from tenure.node.service import Surroundings
from tenure.settings import Settings
from tenure.testing import FakeClock
from tests.contract import redis_harness, test_memory, test_postgres, test_sqlite
from tests.support.servers import PostgresServer, ValkeyServer

NAMES = 2_000
STEP = 10


@pytest.fixture(scope="module")
def valkey() -> Iterator[ValkeyServer]:
    server = ValkeyServer(clock=True)
    try:
        yield server.start()
    finally:
        server.close()


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
async def harness(request: pytest.FixtureRequest) -> AsyncIterator[Any]:
    opened: AbstractAsyncContextManager[Any]
    if request.param == "memory":
        opened = test_memory.open_memory()
    elif request.param == "sqlite":
        opened = test_sqlite.open_sqlite()
    elif request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        test_postgres.servers.append(server)
        opened = test_postgres.open_postgres()
    else:
        valkey: ValkeyServer = request.getfixturevalue("valkey")
        opened = redis_harness.open_harness(valkey.url, [valkey])
    async with opened as harness:
        yield harness


@pytest.mark.slow
async def test_names_that_come_and_go_do_not_add_up(harness: Any) -> None:
    """One new name each second; what a process does that uses `Leases`, and nobody else."""
    pruner = Pruner(harness.leases, Surroundings(harness.clock, Facts(), Settings()))
    most = lines = 0
    for number in range(NAMES):
        grant = await harness.grant(f"order {number}")
        assert await harness.leases.release(grant)
        pruner.acquired()
        while await pruner.step() is not None:
            pass
        if number % STEP == STEP - 1:
            await harness.advance(STEP)
        if number % 100 == 99:
            most = max(most, len(await harness.leases.all()))
            lines = max(lines, len(await harness.leases.history(limit=2 * NAMES)))
    assert most <= FREE_AFTER + 2 * EVERY_ACQUIRES
    assert lines <= KEPT_LINES + EVERY_ACQUIRES
    # And no name gets a term that it had.
    for number in (0, NAMES // 2, NAMES - 1):
        first = await harness.grant(f"order {number}", "ann")
        await harness.leases.release(first)
        await harness.advance(FREE_AFTER * 2)
        await harness.leases.forget("", FREE_AFTER)
        assert (await harness.grant(f"order {number}", "bob")).term > first.term


def test_plain_leases_prune_as_they_go(tmp_path: Path) -> None:
    """The same through the front door, in a process without a scheduler."""
    clock = FakeClock()
    with Leases(f"sqlite:///{tmp_path}/app.db", clock=clock) as leases:
        for number in range(2 * EVERY_ACQUIRES):
            lease = leases.acquire(f"order {number}")
            assert lease is not None
            assert lease.release()
            clock.advance(FREE_AFTER / 10)
        found = leases._runtime.call(_settled(leases))
    assert found <= EVERY_ACQUIRES


async def _settled(leases: Leases) -> int:
    connected = await leases._runtime.connected()
    assert connected._pruner is not None
    while await connected._pruner.step() is not None:
        pass
    return len(await connected.backend.leases.all())
