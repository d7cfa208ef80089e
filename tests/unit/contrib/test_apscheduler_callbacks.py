"""`guard(on_lead=…, on_stop=…)` and `wait_until_leading`, with a real lease."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.base import STATE_RUNNING

from tenure import Leases
from tenure.contrib.apscheduler import guard
from tenure.errors import ConfigError


def test_the_jobs_run_before_on_lead_and_are_over_before_on_stop() -> None:
    jobs, told = BackgroundScheduler(), list[tuple[str, bool]]()

    def tell(what: str) -> Any:
        return lambda: told.append((what, jobs.state == STATE_RUNNING))

    with guard(jobs, "memory://", on_lead=tell("lead"), on_stop=tell("stop")) as only_one:
        assert only_one.wait_until_leading(20)
        assert only_one.is_leader
    assert told == [("lead", True), ("stop", False)]


def test_waiting_ends_without_a_lead() -> None:
    with Leases("memory://") as leases, leases.hold("apscheduler"):
        told = list[str]()
        jobs = BackgroundScheduler()
        with guard(jobs, leases, on_stop=lambda: told.append("stop")) as only_one:
            assert not only_one.wait_until_leading(0.01)
        assert not told  # it never led


async def test_coroutines_are_awaited_on_the_loop() -> None:
    told = list[tuple[str, asyncio.AbstractEventLoop]]()

    async def lead() -> None:
        told.append(("lead", asyncio.get_running_loop()))

    async def stop() -> None:
        told.append(("stop", asyncio.get_running_loop()))

    async with guard(AsyncIOScheduler(), "memory://", on_lead=lead, on_stop=stop) as only_one:
        with pytest.raises(ConfigError, match=r"await asyncio\.to_thread"):
            only_one.wait_until_leading(20)
        assert await asyncio.to_thread(only_one.wait_until_leading, 20)
    here = asyncio.get_running_loop()
    assert told == [("lead", here), ("stop", here)]


def test_a_coroutine_needs_a_loop() -> None:
    async def lead() -> None: ...

    with pytest.raises(ConfigError, match="needs an event loop"):
        guard(BackgroundScheduler(), "memory://", on_lead=lead).start()
