"""What a change would mean, while people are still typing it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from tenure.errors import ConfigError, TenureError
from tenure.triggers import Explanation, moments
from tenure.triggers.text import as_trigger
from tenure.web.pages import policies
from tenure.web.reading import Reader, Store
from tenure.web.rendering import page

TIMES = 10
LONGEST = 500
MOST_BACKFILLED = 200
"""As many as a page may backfill at once; the command line takes more."""


def _times(text: str, now: datetime) -> list[Explanation]:
    return as_trigger(text).preview(TIMES, now)


def routes(reader: Reader) -> list[BaseRoute]:
    async def now_of(store: Store) -> datetime:
        return await store.now()

    async def trigger(request: Request) -> Response:
        text = request.query_params.get("trigger", "").strip()[:LONGEST]
        now, times, problem = await reader.ask(now_of), list[Explanation](), ""
        try:
            # On a thread: a rule may take its time to find nothing, and others are to be answered.
            times = await asyncio.to_thread(_times, text, now) if text else []
        except (TenureError, ValueError, OverflowError) as error:
            problem = str(error)
        return page(request, "preview.html", now=now, times=times, problem=problem, total=None)

    async def backfill(request: Request) -> Response:
        given, times, problem = request.query_params, list[datetime](), ""
        try:
            start, end = stretch(given.get("start", ""), given.get("end", ""))
            times = await reader.access.backfill(
                given.get("name", ""), start, end, limit=MOST_BACKFILLED, dry_run=True
            )
        except TenureError as error:
            problem = str(error)
        now = await reader.ask(now_of)
        return page(
            request, "preview.html", now=now, times=times, problem=problem, total=len(times)
        )

    async def policy(request: Request) -> Response:
        given, told, problem = dict(request.query_params), list[tuple[str, str, str]](), ""
        try:
            schedule = await reader.access.get(given.get("name", ""))
            changes = policies.read(schedule.spec, given)
            told = policies.difference(schedule, changes, await reader.ask(now_of))
        except TenureError as error:
            problem = str(error)
        return page(request, "difference.html", told=told, problem=problem)

    return [
        Route("/preview/trigger", trigger),
        Route("/preview/policies", policy),
        Route("/preview/backfill", backfill),
    ]


def stretch(start: str, end: str) -> tuple[datetime, datetime]:
    """From a form, in UTC unless it says otherwise."""
    if not start or not end:
        raise ConfigError("Say from when to when.")
    first, last = moments.read("start", start[:40]), moments.read("end", end[:40], end=True)
    first = first if first.tzinfo else first.replace(tzinfo=UTC)
    return first, last if last.tzinfo else last.replace(tzinfo=UTC)
