"""The memory backend is a verified fake: it passes the contract of the real ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from tenure.backends.base import Backend
from tenure.backends.memory import MemoryBackend
from tenure.backends.memory.leases import MemoryLeases
from tenure.testing import FakeClock
from tenure.testing.contract import BackendContract, Harness, lease_machine, run_machine


class MemoryHarness(Harness):
    """A memory backend has one object: it is its own other process."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.backend = MemoryBackend(self.clock)

    async def another(self) -> Backend:
        return self.backend

    async def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @property
    def jump(self) -> Callable[[float], None]:
        return self.clock.jump

    async def delete(self, name: str) -> bool | None:
        leases = self.backend.leases
        assert isinstance(leases, MemoryLeases)
        del leases._leases[name]
        return True


@asynccontextmanager
async def open_memory() -> AsyncIterator[Harness]:
    harness = MemoryHarness()
    await harness.backend.open()
    yield harness


class TestMemory(BackendContract):
    @pytest.fixture
    async def harness(self) -> AsyncIterator[Harness]:
        async with open_memory() as harness:
            yield harness


TestLeaseMachine = lease_machine(open_memory).TestCase
TestRunMachine = run_machine(open_memory).TestCase
