"""Runs: what was executed, and why one was not."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from tenure.errors import NotFound
from tenure.model import PENDING, Attempt, RunRecord, RunState
from tenure.node.names import PRESENCE
from tenure.web import descriptions, story
from tenure.web.drawing.axis import took
from tenure.web.drawing.waterfall import WIDTH, waterfall
from tenure.web.live import RUNS
from tenure.web.reading import Reader, Store
from tenure.web.rendering import page

SHOWN = 50
LOOKED_AT = 1_000
UNFINISHED = (RunState.WAITING, RunState.CLAIMED)
STATES = ("", *(str(state) for state in RunState))


@dataclass(frozen=True, slots=True)
class Look:
    now: datetime
    run: RunRecord
    attempts: list[Attempt]
    waits: descriptions.Waits | None
    hangs: str | None


def routes(reader: Reader) -> list[BaseRoute]:
    async def show_all(request: Request) -> Response:
        state = request.query_params.get("state", "")
        state = state if state in STATES else ""
        text = request.query_params.get("q", "").strip()[:200]
        given = request.query_params.get("below", "")
        below = int(given) if given.isdecimal() and len(given) < 19 else None

        async def ask(store: Store) -> tuple[datetime, list[RunRecord], int | None]:
            now = await store.now()
            if state in UNFINISHED:
                found = await store.overview.unfinished(state, SHOWN)
                return now, [run for run in found if _matches(run, text)], None
            limit = LOOKED_AT if state or text else SHOWN
            looked = await store.overview.runs(limit=limit, below=below)
            last = looked[-1].id if len(looked) == limit else None
            found = [r for r in looked if state in ("", r.state) and _matches(r, text)]
            if len(found) > SHOWN:
                last = found[SHOWN - 1].id
            return now, found[:SHOWN], last

        now, runs, last = await reader.ask(ask)
        return page(
            request,
            "runs.html",
            topics="" if below else RUNS,
            now=now,
            state=state,
            text=text,
            states=STATES,
            runs=runs,
            last=last,
            below=below,
            took=took,
            tones=descriptions.TONES,
            looked_at=LOOKED_AT,
            unfinished=UNFINISHED,
        )

    async def show(request: Request) -> Response:
        run_id = int(request.path_params["run"])

        async def ask(store: Store) -> Look:
            found = await store.runs.find([run_id]) if run_id < 2**63 else []
            if not found:
                raise NotFound(f"There is no run {run_id}, or it is so old that it was pruned.")
            now = await store.now()
            waits = await descriptions.why_it_waits(store, found[0], now)
            attempts = await store.runs.attempts(run_id)
            claimed = found[0].state is RunState.CLAIMED
            nodes = await store.leases.all(PRESENCE) if claimed else []
            hangs = descriptions.where_it_hangs(nodes, found[0])
            return Look(now, found[0], attempts, waits, hangs)

        look = await reader.ask(ask)
        run = look.run
        return page(
            request,
            "run.html",
            topics=RUNS if run.state in UNFINISHED else "",
            now=look.now,
            run=run,
            pending=PENDING,
            attempts=look.attempts,
            waits=look.waits,
            hangs=look.hangs,
            took=took(run),
            retried=run.state in (RunState.FAILED, RunState.LOST, RunState.CANCELLED),
            unfinished=run.state in UNFINISHED,
            tones=descriptions.TONES,
            steps=story.steps_of_run(run, look.attempts, look.now),
            rows=waterfall(story.phases(run, look.attempts, look.now)),
            width=WIDTH,
        )

    return [Route("/runs", show_all), Route("/run/{run:int}", show)]


def _matches(run: RunRecord, text: str) -> bool:
    return text.lower() in f"{run.schedule or ''}\0{run.task}\0{run.tenant or ''}".lower()
