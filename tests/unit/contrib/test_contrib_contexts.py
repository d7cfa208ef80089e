"""Wrappers around tasks: several of them, and ready-made ones for contexts and for Flask."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from flask import Flask, current_app, g

from tenure import ConfigError, Run, Scheduler, every
from tenure.contrib.contexts import inside
from tenure.contrib.flask import app_context
from tenure.tasks.executor import Wrapper
from tenure.testing import testing

KINDS = ["plain", "coroutine", "plain that hands out a coroutine"]


def declare(scheduler: Scheduler, kind: str, body: Callable[[], None]) -> None:
    """A task "work" of that kind, which does this, and then waits if it can."""

    async def later() -> None:
        body()
        await asyncio.sleep(1)
        body()

    functions = {"plain": body, "coroutine": later, KINDS[2]: lambda: later()}  # noqa: PLW0108
    scheduler.task(every(hours=1), name="work")(functions[kind])


def recorded(name: str, log: list[str]) -> Wrapper:
    def around(call: Callable[[], Any], run: Run) -> Any:
        log.append(f"{name} begins")
        try:
            return call()
        finally:
            log.append(f"{name} returns")

    return around


def test_the_first_is_the_outermost() -> None:
    scheduler, log = Scheduler("sqlite:///never.db"), list[str]()
    scheduler.task(every(hours=1), name="work")(lambda: log.append("work"))
    scheduler.around(recorded("context", log), recorded("tracing", log))
    scheduler.around(recorded("session", log))
    with testing(scheduler) as world:
        world.advance(hours=1)
        assert world.ran("work") == 1
    names = ["context", "tracing", "session"]
    begun = [f"{name} begins" for name in names]
    assert log == [*begun, "work", *[f"{name} returns" for name in reversed(names)]]


def test_an_async_wrapper_anywhere_in_the_chain_is_awaited() -> None:
    for place in (0, 1):
        scheduler, log = Scheduler("sqlite:///never.db"), list[str]()

        async def around(call: Callable[[], Any], run: Run, log: list[str] = log) -> Any:
            log.append("async begins")
            result = call()
            log.append("async ends")
            return result

        scheduler.task(every(hours=1), name="work")(lambda log=log: log.append("work"))
        wrappers: list[Wrapper] = [recorded("plain", log)]
        wrappers.insert(place, around)
        scheduler.around(*wrappers)
        with testing(scheduler) as world:
            world.advance(hours=1)
            assert world.ran("work") == 1
        assert [line for line in log if "plain" not in line] == [
            "async begins",
            "work",
            "async ends",
        ]


def test_what_is_no_wrapper_is_refused_and_nothing_is_added() -> None:
    scheduler, log = Scheduler("sqlite:///never.db"), list[str]()
    nothing: Any = None
    with pytest.raises(ConfigError, match=r"around\(None\): a wrapper is a function"):
        scheduler.around(recorded("context", log), nothing)
    scheduler.task(every(hours=1), name="work")(lambda: None)
    with testing(scheduler) as world:
        world.advance(hours=1)
        assert world.ran("work") == 1
    assert log == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_context_lasts_until_the_task_has_ended(kind: str) -> None:
    scheduler, log = Scheduler("sqlite:///never.db"), list[str]()
    entered = contextvars.ContextVar("entered", default=False)

    @contextmanager
    def context(run: Run) -> Iterator[None]:
        token = entered.set(True)
        log.append("entered")
        yield
        entered.reset(token)
        log.append("left")

    declare(scheduler, kind, lambda: log.append(f"work {entered.get()}"))
    scheduler.around(inside(context))
    with testing(scheduler) as world:
        world.advance(hours=1, seconds=2)
        assert not world.failures
        assert world.ran("work") == 1
    work = ["work True"] * (1 if kind == "plain" else 2)
    assert log[-len(work) - 2 :] == ["entered", *work, "left"]
    assert log.count("entered") == log.count("left") == (2 if kind == KINDS[2] else 1)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_passes_through_the_context(kind: str) -> None:
    scheduler, seen = Scheduler("sqlite:///never.db"), list[str]()

    @contextmanager
    def context(run: Run) -> Iterator[None]:
        try:
            yield
        except LookupError as error:
            seen.append(str(error))
            raise

    def fail() -> None:
        raise LookupError("not there")

    declare(scheduler, kind, fail)
    scheduler.around(inside(context))
    with testing(scheduler) as world:
        world.advance(hours=1, seconds=2)
        assert [str(failure.error) for failure in world.failures] == ["not there"]
    assert seen == ["not there"]


@pytest.mark.parametrize("kind", KINDS)
def test_flask_tasks_have_an_application(kind: str) -> None:
    app, scheduler, seen = Flask("shop"), Scheduler("sqlite:///never.db"), list[str]()
    torn_down: list[BaseException | None] = []
    app.teardown_appcontext(torn_down.append)

    def body() -> None:
        g.count = g.get("count", 0) + 1  # each task has one of its own
        seen.append(f"{current_app.name} {g.count}")

    declare(scheduler, kind, body)
    scheduler.around(app_context(app))
    with testing(scheduler) as world:
        world.advance(hours=2, seconds=2)
        assert not world.failures
        assert world.ran("work") == 2
    assert seen == (["shop 1"] if kind == "plain" else ["shop 1", "shop 2"]) * 2
    assert set(torn_down) == {None}


@pytest.mark.parametrize("kind", KINDS)
def test_flask_on_real_threads_and_loops(kind: str) -> None:
    """As in production: the task is not executed where the test is."""
    app, scheduler, seen = Flask("shop"), Scheduler("memory://"), list[str]()

    async def later() -> None:
        await asyncio.sleep(0)
        seen.append(current_app.name)

    plain: Callable[[], Any] = lambda: seen.append(current_app.name)  # noqa: E731
    functions: dict[str, Callable[[], Any]] = {
        "plain": plain,
        "coroutine": later,
        KINDS[2]: lambda: later(),  # noqa: PLW0108
    }
    scheduler.task(every(hours=1), name="work")(functions[kind])
    scheduler.around(app_context(app))
    ended = threading.Semaphore(0)
    scheduler.on("run.*ed", lambda fact: ended.release() if fact.name != "run.started" else None)
    with scheduler:
        for _ in range(2):
            scheduler.run_now("work")
            assert ended.acquire(timeout=30)
        assert {run.state for run in scheduler.runs()} == {"succeeded"}
    assert seen == ["shop", "shop"]
