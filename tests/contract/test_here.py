"""Plain blocking calls, on the thread of the caller, pass the same contract on every real store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

import pytest

from tenure.backends.base import Backend
from tenure.testing.contract import (
    Harness,
    LeaseContract,
    LeaseRecordContract,
    TakeoverContract,
    lease_machine,
)
from tenure.testing.contract.machines import OpenHarness
from tests.contract import redis_harness, test_postgres, test_sqlite
from tests.support.here import Here
from tests.support.servers import PostgresServer, ValkeyServer

_valkeys: list[ValkeyServer] = []


@asynccontextmanager
async def open_here(open_harness: OpenHarness) -> AsyncIterator[Harness]:
    async with open_harness() as harness:
        another = harness.another

        async def another_here() -> Backend:
            return Here(await another())

        harness.another = another_here  # type: ignore[method-assign]
        harness.backend = Here(harness.backend)
        yield harness


open_sqlite: OpenHarness = partial(open_here, test_sqlite.open_sqlite)
open_postgres: OpenHarness = partial(open_here, test_postgres.open_postgres)


def _open_redis() -> AbstractAsyncContextManager[Harness]:
    return redis_harness.open_harness(_valkeys[-1].url, _valkeys[-1:])


open_redis: OpenHarness = partial(open_here, _open_redis)


@pytest.fixture(autouse=True, scope="module")
def servers(postgres: PostgresServer) -> Iterator[None]:
    """The hypothesis machines open their harness themselves, and take no fixtures."""
    test_postgres.servers.append(postgres)
    valkey = ValkeyServer(clock=True)
    try:
        _valkeys.append(valkey.start())
        yield
    finally:
        valkey.close()


class _Contract(LeaseContract, LeaseRecordContract, TakeoverContract):
    @pytest.fixture
    async def harness(self) -> AsyncIterator[Harness]:
        async with self.opened() as harness:
            yield harness

    def opened(self) -> AbstractAsyncContextManager[Harness]:
        raise NotImplementedError


class TestSQLite(_Contract):
    def opened(self) -> AbstractAsyncContextManager[Harness]:
        return open_sqlite()


class TestPostgres(_Contract):
    def opened(self) -> AbstractAsyncContextManager[Harness]:
        return open_postgres()


class TestRedis(_Contract):
    def opened(self) -> AbstractAsyncContextManager[Harness]:
        return open_redis()


TestSQLiteMachine = lease_machine(open_sqlite, examples=50).TestCase
TestPostgresMachine = lease_machine(open_postgres, examples=15).TestCase
TestRedisMachine = lease_machine(open_redis, examples=20).TestCase
