"""tenure-jsonfile under the contract of lease backends: python -m pytest test_contract.py"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tenure_jsonfile.backend import JsonFileBackend

from tenure.testing import FakeClock
from tenure.testing.contract import LeaseBackendContract, LeaseHarness, leases_only_machine


class JsonFileHarness(LeaseHarness):
    """A file in a folder of its own; time passes when the clock is moved."""

    def __init__(self, folder: str) -> None:
        self.path = Path(folder) / "leases.json"
        self.clock = FakeClock()
        self.opened: list[JsonFileBackend] = []

    async def another(self, boot: str | None = None) -> JsonFileBackend:
        backend = JsonFileBackend(self.path, clock=self.clock, boot=boot)
        await backend.open()
        self.opened.append(backend)
        return backend

    async def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    # What follows is for clauses that not every store can be asked about. Without them these
    # clauses are skipped, and say why.

    @property
    def jump(self) -> Callable[[float], None]:
        return self.clock.jump

    async def foreign(self) -> JsonFileBackend:
        return await self.another(boot="another boot of the machine")

    async def delete(self, name: str) -> bool:
        await self.opened[0]._document.change(lambda contents: contents.leases.pop(name))
        return True


@asynccontextmanager
async def open_harness() -> AsyncIterator[LeaseHarness]:
    with TemporaryDirectory() as folder:
        harness = JsonFileHarness(folder)
        harness.backend = await harness.another()
        yield harness
        for backend in harness.opened:
            await backend.close()


class TestJsonFile(LeaseBackendContract):
    @pytest.fixture
    async def harness(self) -> AsyncIterator[LeaseHarness]:
        async with open_harness() as harness:
            yield harness


TestLeaseMachine = leases_only_machine(open_harness, examples=20).TestCase
