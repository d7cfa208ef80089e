"""The cluster at a glance: who leads, which nodes are alive, what is due and what waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tenure.model import BACKLOG_COUNTED, Backlog, LeaseRecord, RunState
from tenure.node.names import LEADER, PRESENCE
from tenure.web.api.access import Opened
from tenure.web.api.events import GroupAnswer, group_answer
from tenure.web.api.leases import state_of
from tenure.web.api.relays import RelayAnswer, relay_answer
from tenure.web.api.table import Call, Operation
from tenure.web.api.values import Answer, Moment, iso, iso_or_none

MOST_CLAIMS = 10_000
FEW_NODES = 50
SKEW_MOST = 1e12
"""More is no time: an infinity, or a number that is no float."""


class LeaderAnswer(Answer):
    """Who leads."""

    holder: str | None
    host: str | None
    pid: int | None
    term: int
    since: Moment | None
    renewed_at: Moment | None
    expires_at: Moment | None
    ttl: float
    in_office: bool


class NodeAnswer(Answer):
    """A live node, as it describes itself."""

    node: str | None
    host: str | None
    pid: int | None
    leader: bool
    since: Moment | None
    renewed_at: Moment | None
    expires_at: Moment | None
    app: Any
    edition: Any
    version: Any
    tasks: Any
    concurrency: Any
    queues: Any
    leads: Any
    claimed: int
    """How many runs it has; in a large cluster, of the 10,000 newest that are claimed."""
    hung: int
    ready: bool
    skew: float


class Nodes(Answer):
    """Live nodes, the oldest first."""

    items: list[NodeAnswer]


class StatusAnswer(Answer):
    """The cluster. Without a leader nothing is fired."""

    namespace: str
    now: Moment
    leader: LeaderAnswer | None
    nodes: list[NodeAnswer]
    next_due: Moment | None
    due: int
    due_is_more: bool
    """The count ended there; so for the others."""
    backlog: int
    backlog_is_more: bool
    claimed: int
    claimed_is_more: bool
    oldest_waiting: Moment | None
    events: list[GroupAnswer]
    """The groups that have something to read."""
    relays: list[RelayAnswer]


async def _leader(opened: Opened, lease_now: datetime) -> LeaseRecord | None:
    record = await opened.stores.leases.read(LEADER)
    return record if record is not None and state_of(record, lease_now) == "live" else None


async def _nodes(
    opened: Opened, lease_now: datetime, leader: LeaseRecord | None
) -> list[NodeAnswer]:
    found = await opened.stores.leases.all(PRESENCE)
    live = [record for record in found if state_of(record, lease_now) == "live"]
    claimed = await _claimed(opened, [record.holder for record in live])
    live.sort(key=lambda record: (record.acquired_at or lease_now, record.name))
    holder = None if leader is None else leader.holder
    return [_node(record, holder, claimed[record.holder]) for record in live]


async def _claimed(opened: Opened, nodes: Sequence[str | None]) -> Counter[str | None]:
    """How many runs each of these has."""
    if len(nodes) > FEW_NODES:
        claims = await opened.stores.runs.find(state=RunState.CLAIMED, limit=MOST_CLAIMS)
        return Counter(run.node for run in claims)
    # By an index: the other way reads all runs that are on record.
    found = {node: await opened.stores.runs.claimed(node) for node in nodes if node is not None}
    return Counter({node: len(runs) for node, runs in found.items()})


def _node(record: LeaseRecord, leader: str | None, claimed: int) -> NodeAnswer:
    info = record.info
    hung, skew = info.get("hung"), info.get("skew")
    return NodeAnswer(
        node=record.holder,
        host=record.host,
        pid=record.pid,
        leader=leader is not None and record.holder == leader,
        since=iso_or_none(record.acquired_at),
        renewed_at=iso_or_none(record.renewed_at),
        expires_at=iso_or_none(record.expires_at),
        app=info.get("app"),
        edition=info.get("edition"),
        version=info.get("version"),
        tasks=info.get("tasks"),
        concurrency=info.get("concurrency"),
        queues=info.get("queues"),
        leads=info.get("leads"),
        claimed=claimed,
        hung=hung if isinstance(hung, int) and hung > 0 else 0,
        ready=info.get("ready") is not False,
        skew=float(skew) if isinstance(skew, int | float) and abs(skew) < SKEW_MOST else 0.0,
    )


def _in_office(leader: LeaseRecord, backlog: Backlog) -> LeaderAnswer:
    return LeaderAnswer(
        holder=leader.holder,
        host=leader.host,
        pid=leader.pid,
        term=leader.term,
        since=iso_or_none(leader.acquired_at),
        renewed_at=iso_or_none(leader.renewed_at),
        expires_at=iso_or_none(leader.expires_at),
        ttl=leader.ttl,
        in_office=leader.term == backlog.term,
    )


async def status(opened: Opened, call: Call) -> StatusAnswer:
    stores, lease_now = opened.stores, await opened.lease_now()
    leader, backlog = await _leader(opened, lease_now), await stores.schedules.backlog(LEADER)
    groups = [group for group in await stores.events.groups() if group.unread]
    return StatusAnswer(
        namespace=opened.namespace,
        now=iso(backlog.now),
        leader=None if leader is None else _in_office(leader, backlog),
        nodes=await _nodes(opened, lease_now, leader),
        next_due=iso_or_none(backlog.next_due),
        due=backlog.due,
        due_is_more=backlog.due >= BACKLOG_COUNTED,
        backlog=backlog.waiting,
        backlog_is_more=backlog.waiting >= BACKLOG_COUNTED,
        claimed=backlog.claimed,
        claimed_is_more=backlog.claimed >= BACKLOG_COUNTED,
        oldest_waiting=iso_or_none(backlog.oldest_waiting),
        events=[group_answer(group) for group in groups],
        relays=[relay_answer(relay) for relay in await stores.relays.all()],
    )


async def list_nodes(opened: Opened, call: Call) -> Nodes:
    lease_now = await opened.lease_now()
    return Nodes(items=await _nodes(opened, lease_now, await _leader(opened, lease_now)))


OPERATIONS = (
    Operation(
        "GET",
        "/status",
        "status",
        "Show who leads, which nodes are alive, what is due and what waits.",
        status,
        StatusAnswer,
    ),
    Operation("GET", "/nodes", "listNodes", "List the nodes that are alive.", list_nodes, Nodes),
)
