"""What services say about a store that failed."""

from __future__ import annotations

import asyncio

import pytest

from tenure.errors import StoreUnavailable
from tenure.node.service import why


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
