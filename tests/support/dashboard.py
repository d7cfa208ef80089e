"""A store with something of everything, for the pages of the dashboard."""

from __future__ import annotations

import re
from html import unescape

from starlette.testclient import TestClient

from tenure import AsyncScheduler, Event, cron, every
from tenure.model import Result, RunState
from tenure.process.identity import new_holder

MARKUP = "<img src=x onerror=document.title='owned'>\x1b[31m\u202e"
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
        await backend.leases.acquire("tenure/leader", holder, 15.0, fenced=True)
        await backend.leases.acquire(
            f"tenure/node/{holder.id}", holder, 15.0, info={"version": MARKUP, "concurrency": 4}
        )
        [run] = (await backend.runs.claim(holder.id, ["task"], 1)).runs
        failed = Result(run.id, run.claim, holder.id, RunState.FAILED, MARKUP, failed=True)
        await backend.runs.claim(holder.id, [], 0, [failed])

    await scheduler._call(work())
    await scheduler.run_now(NAME, "2")


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
