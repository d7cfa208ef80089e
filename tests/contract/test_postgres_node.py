"""The PostgreSQL backend passes the contract with the rights of a node, and no others.

In every run the clauses about leaders and claims; all of them, which take more than a minute, with
TENURE_TEST_WHOLE=1, as `scripts/test --matrix` sets it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from tenure.backends.base import Backend
from tenure.backends.postgres import PostgresBackend
from tenure.testing.contract import BackendContract, Harness
from tenure.testing.contract.editions import EditionContract
from tenure.testing.contract.fence import FenceContract
from tenure.testing.contract.firing import FiringContract
from tenure.testing.contract.recovery import RecoveryContract
from tenure.testing.contract.runs import RunContract
from tests.contract.test_postgres import PostgresHarness
from tests.support.roles import make_roles
from tests.support.servers import PostgresServer

PREFIX = "contract_"
_kept: list[tuple[str, str]] = []
"""Schemas that are as good as new, with their rights."""


class NodeHarness(PostgresHarness):
    """Tables and clocks belong to others."""

    async def prepare(self, *, new: bool) -> None:
        if new:
            kept, self.kept = self.kept, None  # for others only when all of it is there
            await self._make()
            self.kept = kept
        self.url = self.url.replace("tenure@", f"{PREFIX}node@")

    async def _make(self) -> None:
        owner = PostgresBackend(self.url, schema=self.schema)
        await owner.open()
        await owner.close()
        make_roles(self.url, PREFIX, self.schema)
        for right in (f"USAGE ON SCHEMA {self.shift}", f"SELECT ON {self.shift}.shift"):
            self.server.execute(f"GRANT {right} TO {PREFIX}node".encode())
        self.server.execute(f"ALTER ROLE {PREFIX}node LOGIN".encode())

    async def another(self) -> Backend:
        backend = await super().another()
        await backend.check_rights()  # type: ignore[attr-defined]
        return backend


class _AsNode:
    @pytest.fixture
    async def harness(self, postgres: PostgresServer) -> AsyncIterator[Harness]:
        new = not _kept
        harness = NodeHarness(postgres, _kept)
        try:
            await harness.prepare(new=new)
            harness.backend = await harness.another()
            yield harness
        finally:
            await harness.close()


class TestPostgresNode(
    _AsNode, FenceContract, FiringContract, RecoveryContract, EditionContract, RunContract
):
    """Where rights decide most."""


if os.environ.get("TENURE_TEST_WHOLE"):

    class TestPostgresNodeWhole(_AsNode, BackendContract):
        """All of it."""
