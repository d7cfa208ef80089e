"""A store with something of everything, for the pages of the dashboard."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from html import unescape
from typing import Any, TypeVar

from starlette.testclient import TestClient

from tenure import AsyncScheduler, Event, cron, every
from tenure.backends.base import Backend
from tenure.model import Acknowledgement, Fence, Grant, HeldLane, Lane, Result, RunState
from tenure.node.names import LEADER
from tenure.process.identity import new_holder
from tenure.web import dashboard
from tenure.web.serving import address_of, beside, listen

MARKUP = "<img src=x onerror=document.title='owned'>\x1b[31m\u202e"
T = TypeVar("T")
NAME = "broken <b>&'\""


async def fill(scheduler: AsyncScheduler) -> None:
    @scheduler.task(name="task")
    async def nothing(x: str = "") -> None: ...

    await scheduler.add(NAME, every(hours=1), task="task", kwargs={"x": MARKUP}, tenant="acme")
    await scheduler.add("paused", cron("0 7 * * *", tz="Europe/Berlin"), task="task")
    await scheduler.pause("paused", MARKUP.partition("\x1b")[0])
    await scheduler.add("emits", every(days=1), emit=Event("ledger", "DayEnded", {"a": MARKUP}))
    await scheduler.emit(Event("ledger", "DayEnded", {"a": MARKUP}, key="k"))
    await scheduler.run_now(NAME, "1")
    backend = await scheduler._runtime.backend()

    async def work() -> None:
        holder = new_holder()
        got = await backend.leases.acquire(LEADER, holder, 15.0, fenced=True)
        assert isinstance(got, Grant)
        await backend.leases.acquire(
            f"tenure/node/{holder.id}", holder, 15.0, info={"version": MARKUP, "concurrency": 4}
        )
        [run] = (await backend.runs.claim(holder.id, ["task"], 1)).runs
        failed = Result(run.id, run.claim, holder.id, RunState.FAILED, MARKUP, failed=True)
        await backend.runs.claim(holder.id, [], 0, [failed])
        await parked(backend, Fence(LEADER, got.term, holder.id))

    await scheduler._call(work())
    await scheduler.run_now(NAME, "2")


async def parked(backend: Backend, fence: Fence) -> None:
    """A relay in trouble, that has parked the first event."""
    assert await backend.office.take(fence) == fence
    await backend.events.sequence(fence)
    relay = await backend.relays.resume(fence, "hook", "webhook+https://host")
    [event] = await backend.relays.read([], 0)
    held = HeldLane(Lane("ledger", "k"), event.position or 0, 9, 0.0, MARKUP, True)
    told = Acknowledgement(event.position or 0, (held,), trouble=MARKUP)
    assert await backend.relays.acknowledge(fence, "hook", relay.revision, told)


def done(coroutine: Coroutine[Any, Any, T]) -> T:
    """On another thread: Playwright's own loop runs on this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result(60)


@contextmanager
def filled(url: str = "memory://", **guard: Any) -> Iterator[tuple[AsyncScheduler, str]]:
    """A dashboard of such a store in this process."""
    scheduler = AsyncScheduler(url)
    done(fill(scheduler))
    listener = listen("127.0.0.1", 0)
    with beside(dashboard(scheduler, **guard), listener, scheduler):
        yield scheduler, address_of(listener)


def links(text: str) -> set[str]:
    return {unescape(link) for link in re.findall(r'href="(/[^"]*)"', text)}


def crawled(client: TestClient) -> set[str]:
    """Every page that can be reached. Nothing that was stored is markup, or moves the cursor."""
    seen, ahead = set[str](), {"/"}
    while ahead:
        link = ahead.pop()
        seen.add(link)
        answer = client.get(link)
        assert answer.status_code == 200, link
        if answer.headers["content-type"].startswith("text/html"):
            assert "<img src=x" not in answer.text, link
            assert not set("\x1b\u202e") & set(answer.text), link
            assert " style=" not in answer.text, link
            assert not re.search(r"<script(?! type=\"module\" src=)", answer.text), link
            ahead |= {each for each in links(answer.text) if not each.startswith("/api")} - seen
    return seen
