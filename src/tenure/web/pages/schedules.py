"""Schedules: find one among a hundred thousand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from math import isfinite

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from tenure.model import (
    FACET_COUNTED,
    LATE_BOUNDS,
    Facets,
    Schedule,
    ScheduleSummary,
    Sought,
)
from tenure.schedules.changes import ORPHANED
from tenure.web import descriptions
from tenure.web.live import CHANGES, RUNS
from tenure.web.reading import Reader, Store
from tenure.web.rendering import page
from tenure.words import span

SHOWN = 50
STRIP = 50
LATE = 10.0
BULK = 500
FACETS = {
    "": "All",
    "failing": "Failing",
    "late": "Late",
    "paused": "Not active",
    "orphaned": "Orphaned",
}
ACTIONS = {"pause": "Pause", "resume": "Resume", "run-now": "Run now"}


@dataclass(frozen=True, slots=True)
class Search:
    """What the URL asks for, so that it can be passed on."""

    text: str
    facet: str
    tenant: str
    app: str
    after: str

    @classmethod
    def of(cls, request: Request) -> Search:
        given = request.query_params
        facet = given.get("facet", "")
        return cls(
            given.get("q", "").strip()[:200],
            facet if facet in FACETS else "",
            given.get("tenant", "")[:200],
            given.get("app", "")[:200],
            given.get("after", "")[:200],
        )

    @property
    def sought(self) -> Sought:
        return Sought(
            text=self.text or None,
            tenant=self.tenant or None,
            app=self.app or None,
            active=False if self.facet in ("paused", "orphaned") else None,
            reason=ORPHANED if self.facet == "orphaned" else None,
            late=LATE if self.facet == "late" else None,
            failing=self.facet == "failing",
        )

    def query(self, **changes: str) -> dict[str, str]:
        given = {"q": self.text, "facet": self.facet, "tenant": self.tenant, "app": self.app}
        return given | changes


@dataclass(frozen=True, slots=True)
class Found:
    now: datetime
    schedules: list[Schedule]
    more: bool
    recent: dict[int, list[str]]
    summaries: dict[int, ScheduleSummary]
    facets: Facets


async def find(store: Store, search: Search, limit: int) -> tuple[list[Schedule], bool]:
    """Those on this page, and whether there are more."""
    found = await store.overview.schedules(
        search.sought, limit=limit + 1, after=search.after or None
    )
    return found[:limit], len(found) > limit


def routes(reader: Reader) -> list[BaseRoute]:
    async def show(request: Request) -> Response:
        search = Search.of(request)

        async def ask(store: Store) -> Found:
            found, more = await find(store, search, SHOWN)
            recent = await store.schedules.recent([s.uid for s in found], STRIP)
            summaries = await store.summaries.of([s.uid for s in found])
            facets = await store.overview.facets(LATE, ORPHANED)
            return Found(await store.now(), found, more, recent, summaries, facets)

        found = await reader.ask(ask)
        return page(
            request,
            "schedules.html",
            topics=f"{CHANGES} {RUNS}",
            now=found.now,
            search=search,
            facets=[(name, label, _number(found.facets, name)) for name, label in FACETS.items()],
            values={"tenant": _values(found.facets.tenants), "app": _values(found.facets.apps)},
            rows=[
                (
                    s,
                    descriptions.state(s),
                    descriptions.rule(s),
                    found.recent.get(s.uid, [])[::-1],
                    _p95(found.summaries.get(s.uid)),
                )
                for s in found.schedules
            ],
            tones=descriptions.TONES,
            more=found.more,
            tenants=any(s.tenant for s in found.schedules),
            strip=STRIP,
        )

    async def bulk(request: Request) -> Response:
        """What a change of many would hit, before it is made."""
        action = request.query_params.get("action", "")
        if action not in ACTIONS:
            raise HTTPException(HTTPStatus.BAD_REQUEST, "There is no such action.")
        search, names = Search.of(request), request.query_params.getlist("name")[:BULK]

        async def ask(store: Store) -> tuple[datetime, Sequence[Schedule], bool]:
            if names:
                return await store.now(), list((await store.schedules.find(names)).values()), False
            return await store.now(), *await find(store, search, BULK)

        now, found, more = await reader.ask(ask)
        hit = [s for s in found if _changes(action, s)]
        return page(
            request,
            "bulk.html",
            now=now,
            action=action,
            label=ACTIONS[action],
            hit=hit,
            spared=[s for s in found if s not in hit],
            more=more,
            most=BULK,
            state=descriptions.state,
            tones=descriptions.TONES,
            key=request.state.proof[:8],
        )

    return [Route("/schedules", show), Route("/bulk", bulk)]


def _number(facets: Facets, name: str) -> str:
    counts = {
        "": facets.all,
        "failing": facets.failing,
        "late": facets.late,
        "paused": facets.inactive,
        "orphaned": facets.orphaned,
    }
    return _told(counts[name])


def _values(counted: Sequence[tuple[str, int]]) -> list[tuple[str, str]]:
    return [(value, _told(number)) for value, number in counted]


def _told(number: int) -> str:
    return f"{number:,}" if number <= FACET_COUNTED else f"{FACET_COUNTED:,}+"


def _p95(known: ScheduleSummary | None) -> str:
    """How late 95 % of its runs were at most."""
    if known is None or known.p95 is None:
        return "–"
    return f"≤ {span(known.p95)}" if isfinite(known.p95) else f"> {span(LATE_BOUNDS[-1])}"


def _changes(action: str, schedule: Schedule) -> bool:
    return action == "run-now" or schedule.active is (action == "pause")
