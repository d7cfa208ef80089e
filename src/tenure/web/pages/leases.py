"""Leases: who holds what, and who did."""

from __future__ import annotations

from datetime import datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from tenure.errors import NotFound
from tenure.model import LeaseRecord, RunRecord, Tenure
from tenure.node.names import LEADER, PRESENCE, RELAY
from tenure.web import descriptions
from tenure.web.live import CLUSTER, RUNS
from tenure.web.reading import Reader, Store, is_live
from tenure.web.rendering import page

SHOWN = 200
LINES = 100


def routes(reader: Reader) -> list[BaseRoute]:
    async def show_all(request: Request) -> Response:
        prefix = request.query_params.get("q", "").strip()[:200]
        after = request.query_params.get("after", "")[:200]

        async def ask(store: Store) -> tuple[datetime, list[LeaseRecord], list[RunRecord]]:
            found = await store.leases.all(prefix, after=after, limit=SHOWN + 1)
            claimed = await store.overview.unfinished("claimed", SHOWN)
            return await store.lease_now(), found, [run for run in claimed if run.lock]

        now, found, locks = await reader.ask(ask)
        rows = [
            (each, state(each, now))
            for each in found[:SHOWN]
            if is_live(each, now) or not each.name.startswith(PRESENCE)
        ]
        return page(
            request,
            "leases.html",
            topics=f"{CLUSTER} {RUNS} beat",
            now=now,
            leases=rows,
            prefix=prefix,
            after=after,
            last=found[SHOWN - 1].name if len(found) > SHOWN else None,
            locks=locks,
            tones=descriptions.TONES,
        )

    async def show(request: Request) -> Response:
        name = request.query_params.get("name", "")

        async def ask(store: Store) -> tuple[datetime, LeaseRecord | None, list[Tenure]]:
            history = await store.leases.history(name, limit=LINES)
            return await store.lease_now(), await store.leases.read(name), history

        now, record, history = await reader.ask(ask)
        if record is None and not history:
            raise NotFound(f"There is no lease {name!r}.")
        return page(
            request,
            "lease.html",
            topics=f"{CLUSTER} beat",
            now=now,
            name=name,
            lease=record,
            state="free" if record is None else state(record, now),
            history=history,
            tones=descriptions.TONES,
            consequence=consequence(name),
        )

    return [Route("/leases", show_all), Route("/lease", show)]


def state(record: LeaseRecord, now: datetime) -> str:
    if record.holder is None:
        return "free"
    if not record.live:
        return "expired"
    return "live" if is_live(record, now) else "overdue"


def consequence(name: str) -> str:
    """What happens if its holder is evicted."""
    if name == LEADER:
        return "Another node takes over. What the old leader still writes is refused."
    if name.startswith(PRESENCE):
        return (
            "Its runs are given to other nodes while it may still be executing them; their results"
            " are refused. A node that lives comes back under a new name."
        )
    if name.startswith(RELAY):
        return "Another process continues the relay. Events that are on their way may repeat."
    return (
        "Its holder is not stopped, and may continue until its next renewal: make sure that the"
        " process is gone, or that two at a time do no harm."
    )
