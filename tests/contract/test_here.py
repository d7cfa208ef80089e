"""Plain blocking calls, on the thread of the caller, pass the same contract on every real store."""

from __future__ import annotations

from collections.abc import AsyncIterator
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
from tests.contract import test_postgres, test_sqlite
from tests.support.here import Here
from tests.support.servers import PostgresServer


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


@pytest.fixture(autouse=True, scope="module")
def servers(postgres: PostgresServer) -> None:
    """The hypothesis machines open their harness themselves, and take no fixtures."""
    test_postgres._servers.append(postgres)


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


TestSQLiteMachine = lease_machine(open_sqlite, examples=50).TestCase
TestPostgresMachine = lease_machine(open_postgres, examples=15).TestCase
