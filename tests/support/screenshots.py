"""The pictures in the README: `.venv/bin/python -m tests.support.screenshots`.

They show a made-up day of a shop, told to a store in memory through the calls that nodes use.
"""

from __future__ import annotations

import asyncio
import random
import sys
from datetime import datetime, timedelta
from pathlib import Path

from tenure import AsyncScheduler, Trigger, cron, every
from tenure.backends.base import Backend
from tenure.model import Fence, Firing, Grant, Holder, Planned, Result, RunState
from tenure.node.names import LEADER, PRESENCE
from tenure.process.clock import SystemClock
from tenure.web import dashboard
from tenure.web.serving import address_of, beside, listen
from tests.support.browser import chromium

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images"
NODES = ("web-1", "web-2", "web-3")
TERMS = (("web-2", 0.0, 7.4, "released"), ("web-1", 7.4, 15.1, ""), ("web-3", 15.35, 24.0, ""))
"""Who led from which to which hour, and why it ended: nothing, if the node just died."""
MINUTES = 24 * 60
GAP = range(906, 921)
"""The minutes in which nobody led."""
SCHEDULES: dict[str, Trigger] = {
    "sync-stock": every(minutes=3),
    "send-mails": every(minutes=1),
    "invoices": every(minutes=10),
    "import-orders": every(minutes=15),
    "search-index": every(minutes=20),
    "price-feed": every(minutes=4),
    "abandoned-carts": every(minutes=30),
    "nightly-backup": cron("30 2 * * *", tz="Europe/Berlin"),
    "month-end": cron("0 6 1 * *", tz="Europe/Berlin"),
    "morning-digest": cron("0 7 * * 1-5", tz="Europe/Berlin"),
}
FAILING, SLOW = "price-feed", "import-orders"
ERROR = "Traceback (most recent call last): …\nTimeoutError: feed.example did not answer within 5 s"


class Day(SystemClock):
    """A clock that is where it was put."""

    def __init__(self) -> None:
        self.at = self.end = super().now()

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()


def holder(host: str) -> Holder:
    return Holder(f"{host}:{200 + NODES.index(host)}:a1b2c3", host, 200 + NODES.index(host))


async def led(backend: Backend, day: Day) -> Grant:
    """The leaders of the day. The last one leads still."""
    begin, held = day.end - timedelta(hours=24), list[Grant]()
    for host, since, until, why in TERMS:
        day.at = begin + timedelta(hours=since)
        got = await backend.leases.acquire(LEADER, holder(host), 15.0, fenced=True)
        assert isinstance(got, Grant)
        held.append(got)
        day.at = begin + timedelta(hours=until)
        await backend.leases.renew([got])
        if why:
            await backend.leases.release(got, why)
    return held[-1]


async def worked(scheduler: AsyncScheduler, backend: Backend, day: Day, grant: Grant) -> None:
    """What fired, how late, how long it took, and what failed."""
    fence = Fence(LEADER, grant.term, grant.holder)
    chance = random.Random(7)
    await backend.office.take(fence)
    day.at = day.end - timedelta(minutes=MINUTES, seconds=40)
    for name, trigger in SCHEDULES.items():
        await scheduler.add(name, trigger, task="task")
    for minute in range(MINUTES + 1):
        if minute in GAP:
            continue
        day.at = moment = day.end - timedelta(minutes=MINUTES - minute, seconds=25)
        after_gap = minute - 1 in GAP
        batch = await backend.schedules.due(1_000)
        for due in batch.schedules:
            assert due.next_nominal is not None
            schedule = await scheduler.get(due.name)
            following = schedule.trigger.next(moment if after_gap else due.next_nominal)
            planned = (Planned(due.next_nominal, due.next_due),)
            day.at = moment if after_gap else due.next_due
            firing = Firing(
                due.uid, due.version, due.next_nominal, planned, None, following, following
            )
            await backend.schedules.fire(fence, [firing])
            late = chance.lognormvariate(-5.2, 0.9) * (20 if 1350 < minute < 1365 else 1)
            day.at += timedelta(seconds=late)
            node = holder(chance.choice(NODES)).id
            for run in (await backend.runs.claim(node, ["task"], 1)).runs:
                took = chance.lognormvariate(-0.6, 0.7) * (8 if due.name == SLOW else 1)
                day.at += timedelta(seconds=took)
                bad = due.name == FAILING and minute % 60 > 40
                state = RunState.FAILED if bad else RunState.SUCCEEDED
                result = Result(run.id, run.claim, node, state, ERROR if bad else None, failed=bad)
                await backend.runs.claim(node, [], 0, [result])
    await backend.summaries.advance(fence, limit=10_000, lag=0.0)
    live = [grant]
    for number, host in enumerate(NODES):
        day.at = day.end - timedelta(hours=30 - number * 7)
        info = {"version": "0.1.0", "app": "shop", "concurrency": 8, "leads": True, "tasks": 1}
        got = await backend.leases.acquire(PRESENCE + holder(host).id, holder(host), 15, info=info)
        assert isinstance(got, Grant)
        live.append(got)
    day.at = day.end
    await backend.leases.renew(live)
    await scheduler.pause("month-end", "until the new tax rate is in")
    for name in ("search-index", "import-orders"):
        await scheduler.run_now(name, "now")
        await backend.runs.claim(holder("web-1").id, ["task"], 1)


async def filled(scheduler: AsyncScheduler, day: Day) -> None:
    backend = await scheduler._runtime.backend()

    @scheduler.task(name="task")
    def task() -> None: ...

    await worked(scheduler, backend, day, await led(backend, day))


def main(folder: Path) -> None:
    day = Day()
    scheduler = AsyncScheduler("memory://", clock=day)
    asyncio.run(filled(scheduler, day))
    listener = listen("127.0.0.1", 0)
    folder.mkdir(exist_ok=True)
    app = dashboard(scheduler, allow_changes=True)
    with beside(app, listener, scheduler), chromium() as browser:
        for name, path, scheme, height in (
            ("cluster", "", "light", 1250),
            ("schedule", "schedule?name=price-feed", "dark", 760),
        ):
            with browser.new_context(
                viewport={"width": 1180, "height": height},
                color_scheme="dark" if scheme == "dark" else "light",
            ) as context:
                page = context.new_page()
                page.goto(address_of(listener) + path)
                page.locator("#live[data-state=live]").wait_for()
                page.screenshot(path=folder / f"{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
