"""Lifespans in their order, and readiness that does not wait for leadership."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from tenure import AsyncScheduler
from tenure.contrib.fastapi import lifespan, readiness


async def test_lifespans_are_entered_in_order_left_in_reverse_and_share_their_state() -> None:
    seen: list[str] = []

    def part(name: str, state: Any) -> Any:
        @asynccontextmanager
        async def inner(app: object) -> AsyncIterator[Any]:
            seen.append(f"{name} in")
            yield state
            seen.append(f"{name} out")

        return inner

    class WithLifespan:
        lifespan = staticmethod(part("scheduler", None))

    combined = lifespan(part("pool", {"pool": 1}), WithLifespan(), part("cache", {"cache": 2}))
    async with combined(object()) as state:
        assert state == {"pool": 1, "cache": 2}
    assert seen == ["pool in", "scheduler in", "cache in", "cache out", "scheduler out", "pool out"]


async def test_a_failing_part_closes_those_before_it() -> None:
    closed = []

    @asynccontextmanager
    async def pool(app: object) -> AsyncIterator[None]:
        yield
        closed.append("pool")

    @asynccontextmanager
    async def guarded(app: object) -> AsyncIterator[None]:
        try:
            yield
        finally:
            closed.append("guarded")

    def broken(app: object) -> Any:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        async with lifespan(pool, guarded, broken)(object()):
            pass
    assert closed == ["guarded"]


async def test_ready_means_running(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    scheduler, standby = AsyncScheduler(url), AsyncScheduler(url)
    assert await ask(standby) == (503, {"ready": False, "leads": False, "node": None})
    async with scheduler, standby:
        status, told = await ask(standby)
        assert (status, told["ready"], told["node"]) == (200, True, standby.node)
    assert (await ask(standby))[0] == 503


async def test_ready_when_nothing_is_to_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENURE_ENABLED", "0")
    scheduler = AsyncScheduler("memory://")
    async with scheduler:
        assert (await ask(scheduler))[0] == 200


async def ask(scheduler: AsyncScheduler) -> tuple[int, dict[str, Any]]:
    answer = await readiness(scheduler)(Request({"type": "http"}))
    return answer.status_code, json.loads(bytes(answer.body))
