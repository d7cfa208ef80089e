"""Cluster: who leads, who lives, is all well?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isfinite

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from tenure.model import CLASSES, Backlog, Bucket, LeaseRecord, RunRecord, Tenure
from tenure.node.names import LEADER, PRESENCE
from tenure.web.drawing.colours import colours
from tenure.web.drawing.lateness import BASE, CELL, COLUMN, PEAK, heatmap, takeovers
from tenure.web.drawing.strip import HOURS, WIDTH, stretches, strip
from tenure.web.drawing.ticks import ticks
from tenure.web.live import CLUSTER, RUNS
from tenure.web.reading import Reader, Store, is_live
from tenure.web.rendering import page

LINES = 300
"""How many lines of history are read."""
NODES = 200
LATE = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Node:
    """A row of the table of nodes; what a node says about itself may have been edited."""

    record: LeaseRecord
    colour: int
    leads: bool
    running: int

    @property
    def concurrency(self) -> int | None:
        told = self.record.info.get("concurrency")
        return told if isinstance(told, int) else None

    @property
    def load(self) -> float:
        """From 0 to 1."""
        return min(1.0, self.running / self.concurrency) if self.concurrency else 0.0

    @property
    def skew(self) -> float:
        told = self.record.info.get("skew")
        return float(told) if isinstance(told, int | float) and isfinite(told) else 0.0

    @property
    def hung(self) -> int:
        told = self.record.info.get("hung")
        return told if isinstance(told, int) and told > 0 else 0

    @property
    def role(self) -> str:
        if self.leads:
            return "leads"
        return "executes only" if self.record.info.get("leads") is False else "stands by"


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at the store found."""

    now: datetime
    leader: LeaseRecord | None
    nodes: list[LeaseRecord]
    claimed: dict[str, int]
    backlog: Backlog
    history: list[Tenure]
    buckets: list[Bucket]
    counted_until: datetime | None
    """When the last run ended that is in the buckets."""
    location: str
    newest: RunRecord | None
    """The last run that was made."""

    @property
    def in_office(self) -> bool:
        return self.leader is not None and self.leader.term == self.backlog.term

    @property
    def late(self) -> bool:
        next_due = self.backlog.next_due
        return next_due is not None and self.now - next_due > LATE

    @property
    def well(self) -> bool:
        return self.leader is not None and self.in_office and not self.late


async def take_look(store: Store) -> Look:
    now = await store.lease_now()
    leader = await store.leases.read(LEADER)
    nodes = [each for each in await store.leases.all(PRESENCE) if is_live(each, now)]
    claimed = {
        node.holder: len(await store.runs.claimed(node.holder))
        for node in nodes[:NODES]
        if node.holder
    }
    return Look(
        now,
        leader if is_live(leader, now) else None,
        sorted(nodes, key=lambda node: (node.acquired_at or now, node.name)),
        claimed,
        await store.schedules.backlog(LEADER),
        await store.leases.history(LEADER, limit=LINES),
        await store.summaries.buckets(HOURS * 3600.0),
        await store.summaries.position(),
        store.location,
        next(iter(await store.overview.runs(limit=1)), None),
    )


def routes(reader: Reader) -> list[BaseRoute]:
    async def show(request: Request) -> Response:
        look = await reader.ask(take_look)
        leader, now = look.leader, look.now
        first = now - timedelta(hours=HOURS)
        lines = [each for each in stretches(look.history, leader, now) if each.end > first]
        holders = {each.line.holder for each in lines} | {node.holder for node in look.nodes}
        colour = colours(holders)
        nodes = [
            Node(
                node,
                colour.get(node.holder or "", 0),
                leader is not None and node.holder == leader.holder,
                look.claimed.get(node.holder or "", 0),
            )
            for node in look.nodes
        ]
        return page(
            request,
            "cluster.html",
            topics=f"{CLUSTER} {RUNS} beat",
            look=look,
            now=now,
            leader=leader,
            nodes=nodes,
            more=max(0, len(look.nodes) - NODES),
            colour=colour,
            bars=strip(look.history, leader, now, colour),
            lines=lines[::-1],
            ticks=ticks(first, now, 100.0),
            width=WIDTH,
            heat=heatmap(look.buckets, now),
            takeovers=takeovers(lines, now),
            column=COLUMN,
            map_height=CELL * CLASSES,
            base_line=BASE,
            peak=PEAK,
            location=look.location,
            namespace=reader.access.namespace,
            whole_day=len(look.history) < LINES,
        )

    return [Route("/", show)]
