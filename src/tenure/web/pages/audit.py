"""Audit: who changed what, from where, and what came of it."""

from __future__ import annotations

from datetime import datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from tenure.model import DONE, AuditLine, subject_of
from tenure.model.audit import LONGEST_WORD
from tenure.web.live import CHANGES, RUNS
from tenure.web.reading import Reader, Store
from tenure.web.rendering import page, query

SHOWN = 100
MOST_DIGITS = 18
OF_SCHEDULES = frozenset({"update schedule", "put schedule", "pause schedule", "resume schedule"})
"""Of these its name is still the same; and several that were added are one line."""


def routes(reader: Reader) -> list[BaseRoute]:
    async def show(request: Request) -> Response:
        given = request.query_params.get("below", "")
        below = int(given) if given.isdecimal() and len(given) <= MOST_DIGITS else None
        about = request.query_params.get("of", "").strip()[:LONGEST_WORD]

        async def ask(store: Store) -> tuple[datetime, list[AuditLine]]:
            subject = subject_of(about) if about else None
            found = await store.audit.find(limit=SHOWN + 1, below=below, subject=subject)
            return await store.now(), found

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
            about=about,
            to_subject=to_subject,
        )

    return [Route("/audit", show)]


def to_subject(line: AuditLine) -> str | None:
    """The page about what was changed, as far as that can be told from the words of its line."""
    if not line.subject or line.outcome != DONE or len(line.subject) == LONGEST_WORD:
        return None  # there may be none; or the name was cut
    if line.action.endswith(" run") and line.subject.isdecimal():
        return f"/run/{line.subject}"
    if line.action == "evict lease":
        return f"/lease{query(name=line.subject)}"
    if line.action in ("run now", "backfill") or line.action in OF_SCHEDULES:
        return f"/schedule{query(name=line.subject)}"
    return None
