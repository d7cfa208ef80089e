"""A schedule: its past and future, and what holds for it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from tenure.errors import InvalidTrigger, NotFound
from tenure.model import DONE, AuditLine, Occurrence, RunRecord, Schedule, subject_of
from tenure.triggers import Explanation
from tenure.web import descriptions
from tenure.web.drawing.axis import HEIGHT, WIDTH, axis, took
from tenure.web.edits import as_edit, edits
from tenure.web.live import CHANGES, RUNS
from tenure.web.pages import policies
from tenure.web.reading import Reader, Store
from tenure.web.reasons import to_occurrence
from tenure.web.rendering import page

PAST, FUTURE = 50, 10
EDITS = 10


@dataclass(frozen=True, slots=True)
class Look:
    now: datetime
    schedule: Schedule
    past: list[tuple[Occurrence, RunRecord | None]]
    asked: list[AuditLine]
    """What people asked to do with it."""


def routes(reader: Reader) -> list[BaseRoute]:
    async def show(request: Request) -> Response:
        name = request.query_params.get("name", "")

        async def ask(store: Store) -> Look:
            found = (await store.schedules.find([name])).get(name)
            if found is None:
                raise NotFound(f"There is no schedule {name!r}.")
            past = await store.overview.occurrences(found.uid, PAST)
            ids = [o.run_id for o in past if o.run_id is not None]
            runs = {run.id: run for run in await store.overview.runs(ids)}
            pairs = [(o, runs.get(o.run_id or 0)) for o in past]
            asked = await store.audit.find(limit=EDITS, subject=subject_of(name))
            return Look(await store.now(), found, pairs, asked)

        look = await reader.ask(ask)
        schedule, future = look.schedule, upcoming(look.schedule)
        known = edits(schedule, look.past, look.asked)
        return page(
            request,
            "schedule.html",
            topics=f"{CHANGES} {RUNS}",
            now=look.now,
            schedule=schedule,
            state=descriptions.state(schedule),
            rule=descriptions.rule(schedule),
            target=descriptions.target(schedule),
            policies=list(descriptions.policies(schedule)),
            past=look.past,
            future=future,
            axis=axis(look.past, [each.moment for each in future], look.now, known),
            edits=known[::-1][:EDITS],
            asked=[line for line in look.asked if as_edit(line) is None],
            done=DONE,
            width=WIDTH,
            height=HEIGHT,
            took=took,
            to_occurrence=to_occurrence,
            editable=policies.editable(schedule.spec),
            trigger_text=policies.trigger_text(schedule),
            tones=descriptions.TONES,
            key=secrets.token_hex(8),
        )

    return [Route("/schedule", show)]


def upcoming(schedule: Schedule, n: int = FUTURE) -> list[Explanation]:
    """The next times, each with the rule that decided; none of a schedule that is not active."""
    if not schedule.active or schedule.next_nominal is None:
        return []
    try:
        trigger = schedule.trigger
        begin = trigger.explain(schedule.next_nominal, schedule.uid)
        return [begin, *trigger.preview(n - 1, schedule.next_nominal, schedule.uid)]
    except (InvalidTrigger, OverflowError, ValueError):
        return []
