"""`get(name, default)`, and `async_scheduler.blocking` for plain code beside coroutines."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tenure import AsyncScheduler, Scheduler
from tenure.errors import ConfigError, NotFound
from tenure.testing import testing


def test_get_with_a_default() -> None:
    scheduler = Scheduler("memory://")
    scheduler.task(name="a")(lambda: None)
    with testing(scheduler):
        added = scheduler.add("daily", "every day", task="a")
        assert scheduler.get("daily", None) == added
        assert scheduler.get("weekly", default=None) is None
        assert scheduler.get("weekly", "none") == "none"
        with pytest.raises(NotFound):
            scheduler.get("weekly")


async def test_plain_code_has_the_same_scheduler(tmp_path: Path) -> None:
    scheduler = AsyncScheduler(f"sqlite:///{tmp_path / 'jobs.db'}")
    ended = asyncio.Event()

    @scheduler.task
    async def resize(size: int) -> int:
        ended.set()
        return size

    def handler() -> int:  # as a web framework runs it, on a thread
        scheduler.blocking.put("weekly", "every week", task=resize, kwargs={"size": 1})
        run = scheduler.blocking.enqueue(resize, kwargs={"size": 7})
        result = scheduler.blocking.result(run, timeout=60)
        assert isinstance(result, int)
        return result

    async with scheduler:
        assert await asyncio.to_thread(handler) == 7
        assert ended.is_set()
        assert await scheduler.get("weekly", None) is not None
        assert await scheduler.get("daily", default=None) is None
        assert scheduler.blocking.running
        assert scheduler.blocking.node == scheduler.node


def test_in_a_world_it_is_part_of_the_world() -> None:
    scheduler = AsyncScheduler("sqlite:///nowhere.db")
    scheduler.task(name="a")(lambda: None)
    with testing(scheduler) as world:
        scheduler.blocking.enqueue("a")
        assert world.run_due() == 1


def test_only_the_scheduler_itself_is_started() -> None:
    plain = AsyncScheduler("memory://").blocking
    for begin in (plain.start, plain.stop, plain.run, plain.configure, plain.__enter__):
        with pytest.raises(ConfigError, match="Start, stop and configure the AsyncScheduler"):
            begin()
