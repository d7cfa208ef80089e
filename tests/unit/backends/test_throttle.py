"""Wake-ups in any number: passed on at once, not too often, and the last of them always."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tenure.backends.base import MOST_WAKES
from tenure.backends.shared.throttle import HEARD_AT_ONCE, Allowance, Floods, ThrottledCallbacks

PATIENCE = 30.0


@contextmanager
def at_one_moment() -> Iterator[None]:
    """However long this machine takes for it."""
    loop = asyncio.get_running_loop()
    now = loop.time()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "time", lambda: now)
        yield


def test_allowance_is_so_many_at_once_and_then_so_many_a_second() -> None:
    allowance = Allowance(3, 10.0)
    assert [allowance.take(1.0) for _ in range(5)] == [True, True, True, False, False]
    assert 0.09 < allowance.wait <= 0.1
    assert allowance.take(1.11)
    assert not allowance.take(1.12)
    assert [allowance.take(100.0) for _ in range(4)] == [True, True, True, False]


async def test_first_is_passed_on_at_once_and_the_last_is_never_lost() -> None:
    callbacks, times, late = ThrottledCallbacks(), 0, asyncio.Event()

    def callback() -> None:
        nonlocal times
        times += 1
        if times > MOST_WAKES:
            late.set()

    stop = callbacks.subscribe("a", callback)
    with at_one_moment():
        callbacks.call("a")
        assert times == 1, "it was not passed on at once"
        for _ in range(10 * MOST_WAKES):
            callbacks.call("a")
            callbacks.call("nobody's")
    assert times == MOST_WAKES
    async with asyncio.timeout(PATIENCE):
        await late.wait()
    assert times == MOST_WAKES + 1
    stop()


async def test_topics_do_not_wait_for_each_other() -> None:
    callbacks, heard = ThrottledCallbacks(), asyncio.Event()
    callbacks.subscribe("flooded", lambda: None)
    callbacks.subscribe("quiet", heard.set)
    for _ in range(2 * MOST_WAKES):
        callbacks.call("flooded")
    callbacks.call("quiet")
    assert heard.is_set()
    callbacks.close()


async def test_who_has_stopped_is_not_called_late() -> None:
    callbacks, times = ThrottledCallbacks(), 0

    def callback() -> None:
        nonlocal times
        times += 1

    stop = callbacks.subscribe("a", callback)
    with at_one_moment():
        for _ in range(2 * MOST_WAKES):
            callbacks.call("a")
    stop()
    again = asyncio.Event()
    callbacks.subscribe("a", again.set)
    callbacks.call("a")
    assert again.is_set(), "whoever comes anew waits for nobody"
    assert times == MOST_WAKES


async def test_flooded_channel_is_left_alone_and_heard_again() -> None:
    looked, over = asyncio.Event(), asyncio.Event()
    floods = Floods(lambda channel: looked.set(), lambda channel: over.set())
    with at_one_moment():
        assert not any(floods.heard("a") for _ in range(HEARD_AT_ONCE))
        assert "a" not in floods
        told = [floods.heard("a") for _ in range(200)]
    assert (told.count(True), "a" in floods, "b" in floods) == (1, True, False)
    async with asyncio.timeout(PATIENCE):
        await over.wait()
    assert looked.is_set()
    assert "a" not in floods


async def test_flood_of_a_channel_that_nobody_wants_any_more_is_forgotten() -> None:
    floods = Floods(lambda channel: None, lambda channel: None)
    while not floods.heard("a"):
        pass
    floods.forget(set())
    assert "a" not in floods
    assert not floods.heard("a")
