"""Pages: each page of the dashboard, and a few lists of the HTTP API, beside a long history.

How long does the server take for it, and how large is it? Asked in this process, one after another,
by someone who has asked for each page once before.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from urllib.parse import urlencode

from starlette.testclient import TestClient

from benchmarks.figures import Figure, Say
from benchmarks.history import fill, lead
from benchmarks.stores import Store
from tenure import AsyncScheduler
from tenure.web import dashboard
from tenure.web.reading import Reader

SCHEDULES, RUNS = 100_000, 1_000_000
MOST_MILLISECONDS, MOST_KILOBYTES = 200.0, 300.0


def run(store: Store, quick: bool, say: Say) -> list[Figure]:
    schedules, runs, turns = (1_000, 20_000, 1) if quick else (SCHEDULES, RUNS, 10)
    with store.fresh() as url:
        begun = time.perf_counter()
        fill(store, url, schedules, runs)
        say(f"{schedules:,} schedules, {runs:,} runs in {time.perf_counter() - begun:.1f} s")
        scheduler = AsyncScheduler(url)
        asyncio.run(Reader(scheduler).ask(lambda asked: lead(asked.for_leases)))
        app = dashboard(scheduler, allow_changes=True)
        with TestClient(app, "http://localhost", client=("127.0.0.1", 1)) as client:
            figures, largest = list[Figure](), 0.0
            for path in _paths(client, runs):
                took, size = _asked(client, path, turns)
                shown = path if len(path) < 50 else f"{path[:49]}…"
                say(f"{shown}: {max(took):.0f} ms, {size:.0f} kB")
                figures.append(Figure(f"pages: {shown}", "ms", took, MOST_MILLISECONDS, "median"))
                largest = max(largest, size)
    return [*figures, Figure("pages: the largest of them", "kB", [largest], MOST_KILOBYTES)]


def _asked(client: TestClient, path: str, turns: int) -> tuple[list[float], float]:
    """How many milliseconds it took each time, and how many kilobytes it has."""
    took, size = list[float](), len(client.get(path).raise_for_status().content) / 1000
    for _ in range(turns):
        begun = time.perf_counter()
        client.get(path)
        took.append((time.perf_counter() - begun) * 1000)
    return took, size


def _paths(client: TestClient, runs: int) -> list[str]:
    """What is there and what is not; first pages and later ones; a schedule with many runs."""
    found = client.get("/api/runs", params={"state": "failed", "limit": 10}).json()["items"]
    failed = next(run for run in found if run["id"] % 2)  # of a schedule that has many
    name, moment = failed["schedule"], failed["nominal"]
    missing = f"{datetime.now(UTC):%Y-%m-%dT%H:%M}"
    return [
        "/",
        "/schedules",
        "/schedules?after=copy-50-100",
        *(f"/schedules?facet={facet}" for facet in ("failing", "late", "paused", "orphaned")),
        "/schedules?facet=failing&after=copy-50-100",
        "/schedules?facet=failing&q=no+such+name",
        "/schedules?q=no+such+name",
        "/schedules?tenant=tenant-30",
        "/schedules?app=app-7",
        "/schedules?facet=failing&tenant=tenant-30&app=app-10",
        "/bulk?action=pause&facet=failing",
        f"/schedule?{urlencode({'name': name})}",
        f"/occurrence?{urlencode({'name': name, 'at': moment})}",
        f"/occurrence?{urlencode({'name': name, 'at': missing})}",
        "/runs",
        "/runs?state=failed",
        "/runs?state=waiting",
        "/runs?q=no+such+name",
        f"/runs?state=succeeded&below={runs // 2}",
        f"/run/{failed['id']}",
        "/forecast",
        "/leases",
        "/lease?name=tenure/leader",
        "/events",
        "/events?topic=topic-3",
        "/audit",
        "/audit?below=50000",
        "/api/schedules?limit=50&facets=true",
        "/api/runs?limit=50",
        "/api/audit",
        "/api/status",
    ]
