"""Transactional tasks: what is refused when they are declared, and when their node starts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenure import AsyncScheduler, ConfigError, Scheduler, StoreUnavailable, Tasks, every
from tenure.backends.shared.lending import Places


def fine(connection: Any) -> None: ...


def also_fine(amount: int, *, connection: Any) -> None: ...


def anything(**more: Any) -> None: ...


def none(amount: int) -> None: ...


def positional(connection: Any, /) -> None: ...


def all_of_them(*connection: Any) -> None: ...


@pytest.mark.parametrize("function", [fine, also_fine, anything])
def test_connection_is_a_parameter(function: Callable[..., Any]) -> None:
    assert Tasks().task(transactional=True)(function) is function


@pytest.mark.parametrize("function", [none, positional, all_of_them])
def test_task_without_that_parameter_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match=r"is transactional, but .* has no parameter 'conn"):
        Tasks().task(transactional=True)(function)


def test_connection_is_not_an_argument() -> None:
    tasks = Tasks()
    with pytest.raises(ConfigError, match="'connection' is filled in with the connection of its"):
        tasks.task(every(seconds=1), transactional=True, kwargs={"connection": 1})(fine)
    tasks.task(every(seconds=1), kwargs={"connection": 1})(fine)  # an argument like any other
    tasks.task(every(seconds=1), name="b", transactional=True, kwargs={"amount": 1})(also_fine)
    with pytest.raises(ConfigError, match="cannot be called with"):
        tasks.task(every(seconds=1), name="c", transactional=True)(also_fine)


def test_transactional_is_yes_or_no() -> None:
    with pytest.raises(ConfigError, match="transactional=1 must be True or False"):
        Tasks().task(transactional=1)(fine)  # type: ignore[call-overload]


def test_memory_has_no_transactions() -> None:
    scheduler = Scheduler("memory://")
    scheduler.task(transactional=True)(fine)
    with pytest.raises(ConfigError, match=r"'fine' is transactional, and memory .* lends no"):
        scheduler.start()


def test_node_that_does_not_execute_it_may_start() -> None:
    scheduler = Scheduler("memory://", concurrency=0)
    scheduler.task(transactional=True)(fine)
    with scheduler:
        assert scheduler.running


def test_coroutine_on_sqlite_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    scheduler = AsyncScheduler(f"sqlite:///{tmp_path}/app.db")

    @scheduler.task(transactional=True)
    async def bill(connection: Any) -> None: ...

    with pytest.raises(ConfigError, match="'bill' is transactional, and SQLite blocks"):
        asyncio.run(scheduler.start())
    assert list(tmp_path.iterdir()) == []


def test_plain_function_inside_a_coroutine_is_refused(tmp_path: Path) -> None:
    scheduler = Scheduler(f"sqlite:///{tmp_path}/app.db")
    scheduler.task(transactional=True)(fine)

    async def around(call: Callable[[], Any], run: object) -> Any:
        return call()

    scheduler.around(around)
    with pytest.raises(ConfigError, match=r"around\(\) has a coroutine function"):
        scheduler.start()
    assert list(tmp_path.iterdir()) == []


# -- places ---------------------------------------------------------------------------------------


def test_waiting_for_a_place_ends_with_an_error() -> None:
    places = Places(2, patience=0.01)
    places.take()
    places.take()
    with pytest.raises(StoreUnavailable, match=r"all 2 connections .*lent_connections"):
        places.take()
    places.give()
    places.take()


async def test_threads_and_loops_wait_in_their_order() -> None:
    places, order = Places(1), []
    await places.take_async()

    async def later() -> None:
        await places.take_async()
        order.append("coroutine")
        places.give()

    first = asyncio.ensure_future(later())
    await asyncio.sleep(0)

    def thread() -> None:
        places.take()
        order.append("thread")

    second = threading.Thread(target=thread)
    second.start()
    while len(places._waiting) < 2:  # noqa: ASYNC110 - a thread waits
        await asyncio.sleep(0.001)
    places.give()
    await first
    await asyncio.to_thread(second.join, 10)
    assert order == ["coroutine", "thread"]


async def test_who_gives_up_waiting_takes_no_place() -> None:
    places = Places(1, patience=0.01)
    await places.take_async()
    with pytest.raises(StoreUnavailable, match="the only connection"):
        await places.take_async()
    waiting = asyncio.ensure_future(places.take_async())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    places.give()
    await places.take_async()


async def test_place_that_comes_with_the_cancellation_is_given_on() -> None:
    places = Places(1)
    await places.take_async()
    waiting = asyncio.ensure_future(places.take_async())
    await asyncio.sleep(0)
    places.give()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(30):
        await places.take_async()
