"""What services say about a store that failed."""

from __future__ import annotations

import asyncio

import pytest

from tenure.errors import SchemaMismatch, StoreError, StoreUnavailable
from tenure.facts import Fact, Facts, ServiceFailed, StoreFailed, StoreRecovered
from tenure.node.service import Service, Surroundings, why
from tenure.process.clock import SystemClock
from tests.unit.node.services import SETTINGS


async def _call(within: float) -> None:
    """A call to a store that knows what it waits for."""
    async with asyncio.timeout(within):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise asyncio.CancelledError("locked by another writer") from None


async def test_timeout_says_what_the_store_was_waiting_for() -> None:
    with pytest.raises(TimeoutError) as caught:
        await _call(within=0.01)
    assert why(caught.value) == "locked by another writer"


@pytest.mark.parametrize(
    ("context", "said"),
    [
        (asyncio.CancelledError("locked by another writer"), "locked by another writer"),
        (asyncio.CancelledError(), "no answer in time"),
        (KeyError("of something else"), "no answer in time"),
        (None, "no answer in time"),
    ],
)
def test_timeout_without_a_cause(context: BaseException | None, said: str) -> None:
    """As `asyncio.timeout` raises it in Debian 12's Python 3.11.2."""
    error = TimeoutError()
    error.__context__ = context
    assert why(error) == said


def test_error_of_the_store_speaks_for_itself() -> None:
    assert why(StoreUnavailable("the disk is full")) == "the disk is full"


class Failing(Service):
    """Its steps fail with these errors, one after the other."""

    errors: list[Exception]

    async def step(self) -> float | None:
        if self.errors:
            raise self.errors.pop(0)
        return None


async def test_unavailable_store_is_told_again_if_the_driver_says_something_else() -> None:
    """A server that was restarted as a replica: the operator must not read of a lost connection."""
    told: list[str] = []
    facts = Facts()
    facts.on(StoreFailed.name, lambda fact: told.append(fact.values()["error"]))
    service = Failing(Surroundings(SystemClock(), facts, SETTINGS))
    lost, replica = StoreUnavailable("the connection was lost"), StoreUnavailable("it is a replica")
    lost.__cause__, replica.__cause__ = ConnectionError(), PermissionError()
    service.errors = [lost, replica, lost, replica]
    for _ in range(4):
        await service.guarded_step()
    assert told == ["the connection was lost", "it is a replica"]


async def test_of_failures_in_a_row_the_first_of_each_kind_is_told() -> None:
    """A store that did not answer for a while may come back and refuse: that is news."""
    told: list[Fact] = []
    facts = Facts()
    facts.on("*", told.append)
    service = Failing(Surroundings(SystemClock(), facts, SETTINGS))
    for _ in range(2):
        service.errors = [
            TimeoutError(),
            StoreUnavailable("this database was moved"),
            TimeoutError(),
            StoreError("what is that?"),
            StoreUnavailable("this database was moved"),
            StoreError("what is that?"),
            SchemaMismatch("too old"),
            ZeroDivisionError(),
            ZeroDivisionError(),
        ]
        told.clear()
        for _ in range(10):
            await service.guarded_step()
        assert [type(fact) for fact in told] == [
            StoreFailed,
            StoreFailed,
            StoreFailed,
            StoreFailed,
            ServiceFailed,
            StoreRecovered,
        ]
        assert [fact.error for fact in told if isinstance(fact, StoreFailed)] == [
            "no answer in time",
            "this database was moved",
            "what is that?",
            "too old",
        ]
