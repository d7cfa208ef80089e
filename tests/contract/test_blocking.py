"""Plain blocking calls, on the thread of the caller, pass the same contract on every real store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

import pytest

from tenure.backends.base import LeaseBackend
from tenure.testing.contract import (
    LeaseContract,
    LeaseHarness,
    LeaseRecordContract,
    TakeoverContract,
    leases_only_machine,
)
from tenure.testing.contract.machines import OpenLeaseHarness
from tests.contract import redis_harness, test_postgres, test_sqlite
from tests.support.blocking import Blocking
from tests.support.servers import PostgresServer, ValkeyServer

_valkeys: list[ValkeyServer] = []


@asynccontextmanager
async def open_blocking(open_harness: OpenLeaseHarness) -> AsyncIterator[LeaseHarness]:
    async with open_harness() as harness:
        another = harness.another

        async def another_blocking() -> LeaseBackend:
            return Blocking(await another())

        harness.another = another_blocking  # type: ignore[method-assign]
        harness.backend = Blocking(harness.backend)
        yield harness


open_sqlite: OpenLeaseHarness = partial(open_blocking, test_sqlite.open_sqlite)
open_postgres: OpenLeaseHarness = partial(open_blocking, test_postgres.open_postgres)


def _open_redis() -> AbstractAsyncContextManager[LeaseHarness]:
    return redis_harness.open_harness(_valkeys[-1].url, _valkeys[-1:])


open_redis: OpenLeaseHarness = partial(open_blocking, _open_redis)


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
    async def harness(self) -> AsyncIterator[LeaseHarness]:
        async with self.opened() as harness:
            yield harness

    def opened(self) -> AbstractAsyncContextManager[LeaseHarness]:
        raise NotImplementedError


class TestSQLite(_Contract):
    def opened(self) -> AbstractAsyncContextManager[LeaseHarness]:
        return open_sqlite()


class TestPostgres(_Contract):
    def opened(self) -> AbstractAsyncContextManager[LeaseHarness]:
        return open_postgres()


class TestRedis(_Contract):
    def opened(self) -> AbstractAsyncContextManager[LeaseHarness]:
        return open_redis()


TestSQLiteMachine = leases_only_machine(open_sqlite, examples=50).TestCase
TestPostgresMachine = leases_only_machine(open_postgres, examples=15).TestCase
TestRedisMachine = leases_only_machine(open_redis, examples=20).TestCase
