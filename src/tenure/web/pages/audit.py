"""Audit: who changed what, from where, and what came of it."""

from __future__ import annotations

from datetime import datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from tenure.model import DONE, AuditLine
from tenure.web.live import CHANGES, RUNS
from tenure.web.reading import Reader, Store
from tenure.web.rendering import page

SHOWN = 100
MOST_DIGITS = 18


def routes(reader: Reader) -> list[BaseRoute]:
    async def show(request: Request) -> Response:
        given = request.query_params.get("below", "")
        below = int(given) if given.isdecimal() and len(given) <= MOST_DIGITS else None

        async def ask(store: Store) -> tuple[datetime, list[AuditLine]]:
            return await store.now(), await store.audit.find(limit=SHOWN + 1, below=below)

        now, found = await reader.ask(ask)
        return page(
            request,
            "audit.html",
            topics=f"{CHANGES} {RUNS}" if below is None else "",
            now=now,
            lines=found[:SHOWN],
            more=found[SHOWN - 1].id if len(found) > SHOWN else None,
            done=DONE,
            later=below is not None,
        )

    return [Route("/audit", show)]
