"""A lease that was granted, while nobody heard of it: it is given back, and blocks nobody.

The line lets through what is asked and swallows the answer. What is waited for is a fact in the
store: the lease is free, and its history says that it was given back, not that it ran out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from tenure import LeaseHeld, Leases, StoreUnavailable, single_instance
from tenure.leases.keeping import Keeping
from tenure.node.unanswered_calls import REASON
from tests.faults.test_blocking_leases import SLACK, Place, open_place

pytestmark = pytest.mark.faults

TTL = 20.0
Way = Callable[[Leases], None]


@pytest.fixture(params=["postgres", "redis"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with open_place(request.param) as place:
        yield place


@pytest.fixture
def leases(place: Place) -> Iterator[Leases]:
    with Leases(place.url) as leases:
        yield leases
        place.line.become("pass")


def acquire(leases: Leases) -> None:
    leases.acquire("job", TTL)


def acquire_on_the_loop(leases: Leases) -> None:
    leases._runtime.bring(leases._runtime.take("job", Keeping(TTL), keep=False))


def hold(leases: Leases) -> None:
    with leases.hold("job", TTL):
        raise AssertionError("the answer was lost")


def hold_async(leases: Leases) -> None:
    async def enter() -> None:
        async with leases.hold("job", TTL):
            raise AssertionError("the answer was lost")

    asyncio.run(enter())


def hold_and_wait(leases: Leases) -> None:
    with leases.hold("job", TTL, wait=60):
        raise AssertionError("the answer was lost")


def exclusive(leases: Leases) -> None:
    skipped = leases.exclusive("job", TTL)(lambda: "ran")()
    assert not skipped
    raise StoreUnavailable("skipped")


WAYS = [acquire, acquire_on_the_loop, hold, hold_async, hold_and_wait, exclusive]


@pytest.mark.parametrize("way", WAYS, ids=[way.__name__ for way in WAYS])
def test_lease_whose_grant_was_not_heard_of_is_given_back(
    way: Way,
    place: Place,
    leases: Leases,
) -> None:
    _warm(leases)
    with Leases(place.straight) as other:
        place.line.become("mute")
        with pytest.raises((StoreUnavailable, LeaseHeld)):
            way(leases)
        record = other.inspect("job")
        assert record is not None, "what was asked has arrived"
        place.line.become("cut")
        place.line.become("pass")
        _until(lambda: _free(other))
        assert REASON in _ends(other)
        again = other.acquire("job", TTL)
        assert again is not None
        assert again.release()


def test_guard_whose_grant_was_not_heard_of_is_given_back(place: Place) -> None:
    """It has a store of its own, which it closes when it fails; the line is back by then."""
    with Leases(place.straight) as other:
        guard = single_instance(place.url, "job", ttl=TTL)
        _warm(guard._leases)
        place.line.become("mute")
        with pytest.raises(StoreUnavailable):
            asyncio.run(_enter(guard, place))
        _until(lambda: _free(other))
        assert REASON in _ends(other)


def test_release_that_was_not_heard_of_is_done_again(
    place: Place,
    leases: Leases,
) -> None:
    lease = leases.acquire("job", TTL)
    assert lease is not None
    place.line.become("half-open")
    with pytest.raises(StoreUnavailable):
        lease.release()
    with Leases(place.straight) as other:
        record = other.inspect("job")
        assert record is not None
        assert record.holder == lease.holder, "it has not arrived"
        place.line.become("cut")
        place.line.become("pass")
        _until(lambda: _free(other))
        assert REASON in _ends(other)


async def _enter(guard: object, place: Place) -> None:
    async def line_is_back() -> None:
        await asyncio.sleep(TTL / 3 - 1)
        place.line.become("pass")  # for new connections: the answer is gone

    back = asyncio.create_task(line_is_back())
    try:
        async with guard:  # type: ignore[attr-defined]
            raise AssertionError("the answer was lost")
    finally:
        await back


def _warm(leases: Leases) -> None:
    """Connected in both ways, with nothing left that must be said before the question."""
    lease = leases.acquire("warm", TTL)
    assert lease is not None
    assert lease.release()
    with leases.hold("warm", TTL):
        pass


def _free(leases: Leases) -> bool:
    with suppress(StoreUnavailable):
        record = leases.inspect("job")
        return record is None or record.holder is None
    return False


def _ends(leases: Leases) -> list[str | None]:
    async def history() -> list[str | None]:
        connected = await leases._runtime.connected()
        return [line.end for line in await connected.backend.leases.history("job")]

    return leases._runtime.call(history())


def _until(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TTL + SLACK
    while not fact():
        assert time.monotonic() < deadline, "it does not become so"
        time.sleep(0.05)
