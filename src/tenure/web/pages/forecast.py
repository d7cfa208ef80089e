"""Forecast: where the next 24 hours are crowded, and where there is room."""

from __future__ import annotations

from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from tenure.web.drawing.ticks import ticks
from tenure.web.forecast import BUCKETS, HOURS, MINUTES, Forecast, Forecaster
from tenure.web.reading import Reader, Store
from tenure.web.rendering import page

FIRST_WITHIN = 2.0
"""Seconds that the first visitor waits for it."""
FREE = 6


def routes(reader: Reader, forecaster: Forecaster) -> list[BaseRoute]:
    async def show(request: Request) -> Response:
        async def ask(store: Store) -> object:
            return await store.now()

        now = await reader.ask(ask)
        made = await forecaster.wait(FIRST_WITHIN)
        at = None if made is None else _chosen(made, request.query_params.get("at", ""))
        quiet, crowded = list[int](), list[int]()
        if made is not None:
            quiet = sorted(range(BUCKETS), key=lambda n: (made.counts[n], n))[:FREE]
            crowded = sorted(range(BUCKETS), key=lambda n: (-made.counts[n], n))[:FREE]
        return page(
            request,
            "forecast.html",
            topics="beat",
            now=now,
            made=made,
            trouble=forecaster.trouble,
            at=at,
            buckets=BUCKETS,
            minutes=MINUTES,
            ticks=[] if made is None else ticks(made.begin, made.end, 0.0),
            span_hours=HOURS,
            quiet=sorted(quiet),
            crowded=sorted(crowded),
        )

    return [Route("/forecast", show)]


def _chosen(made: Forecast, text: str) -> int | None:
    """The bucket of the time in the address, which stays the same as the hours pass."""
    try:
        given = datetime.fromisoformat(text[:40])
        return made.number(given if given.tzinfo else given.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return None
