"""`tenure status`: the cluster at a glance."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import click

from tenure.backends.address import program
from tenure.cli.events.groups import unread
from tenure.cli.events.output import group_json, relay_json
from tenure.cli.events.relays import trouble
from tenure.cli.hung_runs import hung_lines, is_ready, number_of
from tenure.cli.lease_output import state
from tenure.cli.opened import Opened
from tenure.cli.output import Page, iso, print_json, when
from tenure.cli.skew import skew_of
from tenure.cli.store import ANSWER_WITHIN, Store, as_json, of_store_and_leases
from tenure.model import BACKLOG_COUNTED, Backlog, EventGroup, LeaseRecord, RelayStatus, Tenure
from tenure.node.names import LEADER, PRESENCE
from tenure.process.clock import SystemClock
from tenure.words import count, relative, span

SKEW_SHOWN = 0.5


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at the store found."""

    store: str
    leases: str | None
    namespace: str
    now: datetime
    skew: float
    leader: LeaseRecord | None
    nodes: list[LeaseRecord]
    claims: Counter[str]
    backlog: Backlog
    last: Tenure | None
    groups: list[EventGroup]
    """Those that have something to read."""
    relays: list[RelayStatus]
    moved: str | None
    """What `tenure copy` has done to the store, if it is not in use as usual."""


@click.command()
@of_store_and_leases
@as_json
@click.option("--watch", is_flag=True, help="Look again every second, until Ctrl+C.")
def status(store: Store, as_json: bool, watch: bool) -> None:
    """Show who leads, which nodes are alive, what is due and what waits.

    Exit code 1 if nobody leads.

    \b
    Examples:
      tenure status
      tenure status --url sqlite:////var/lib/app/tenure.db --watch
      tenure status --url postgresql://app@db/app --leases redis://cache
      tenure status --json | jq .leader.pid
    """
    if watch and as_json:
        raise click.UsageError("--watch and --json cannot be combined.")
    if watch:
        with suppress(KeyboardInterrupt):
            store.ask(lambda backend: _watch(store, backend), within=None)
        return

    async def ask(backend: Opened) -> Look:
        look = await take_look(store, backend)
        if look.leader is None and not look.nodes:
            await backend.tell_namespace()
        return look

    look = store.ask(ask)
    if as_json:
        print_json(to_json(look))
    else:
        _print(look)
    if look.leader is None:
        raise click.exceptions.Exit(1)


async def take_look(store: Store, backend: Opened) -> Look:
    before = SystemClock().now()
    now = await backend.now()
    skew = (before - now).total_seconds()
    lease_now = await backend.lease_now() if backend.leases_elsewhere else now
    leader = await backend.leases.read(LEADER)
    if leader is not None and state(leader, lease_now) != "live":
        leader = None
    presences = await backend.leases.all(PRESENCE)
    claimed = await backend.runs.find(state="claimed", limit=10_000)
    history = await backend.leases.history(LEADER, limit=1) if leader is None else []
    return Look(
        store=backend.location,
        leases=backend.leases_elsewhere,
        namespace=store.namespace,
        now=now,
        skew=skew if abs(skew) >= 0.001 else 0.0,
        leader=leader,
        nodes=[node for node in presences if state(node, lease_now) == "live"],
        claims=Counter(run.node for run in claimed if run.node is not None),
        backlog=await backend.schedules.backlog(LEADER),
        last=history[0] if history else None,
        groups=[group for group in await backend.events.groups() if group.unread],
        relays=await backend.relays.all(),
        moved=await backend.moved(),
    )


def to_json(look: Look) -> dict[str, Any]:
    leader, backlog = look.leader, look.backlog
    return {
        "store": look.store,
        "leases": look.leases,
        "namespace": look.namespace,
        "moved": look.moved,
        "now": iso(look.now),
        "clock_skew": round(look.skew, 3),
        "leader": leader
        and {
            "holder": leader.holder,
            "host": leader.host,
            "pid": leader.pid,
            "term": leader.term,
            "since": iso(leader.acquired_at),
            "renewed_at": iso(leader.renewed_at),
            "expires_at": iso(leader.expires_at),
            "ttl": leader.ttl,
            "in_office": leader.term == look.backlog.term,
        },
        "nodes": [
            {
                "node": node.holder,
                "host": node.host,
                "pid": node.pid,
                "leader": leader is not None and node.holder == leader.holder,
                "since": iso(node.acquired_at),
                "renewed_at": iso(node.renewed_at),
                "expires_at": iso(node.expires_at),
                "app": node.info.get("app"),
                "edition": node.info.get("edition"),
                "version": node.info.get("version"),
                "tasks": node.info.get("tasks"),
                "concurrency": node.info.get("concurrency"),
                "queues": node.info.get("queues"),
                "leads": node.info.get("leads"),
                "claimed": look.claims[node.holder or ""],
                "hung": number_of(node),
                "ready": is_ready(node),
                "skew": skew_of(node),
            }
            for node in look.nodes
        ],
        "next_due": iso(backlog.next_due),
        "due": backlog.due,
        "backlog": backlog.waiting,
        "claimed": backlog.claimed,
        "oldest_waiting": iso(backlog.oldest_waiting),
        "events": [group_json(group) for group in look.groups],
        "relays": [relay_json(relay) for relay in look.relays],
    }


def _print(look: Look) -> None:
    page, now, backlog = Page(), look.now, look.backlog
    waiting = f"{_many(backlog.waiting, 'run')} waiting, {backlog.claimed} running"
    if backlog.oldest_waiting is not None and backlog.oldest_waiting < now:
        waiting += f"; the oldest was due {relative(backlog.oldest_waiting, now)}"
    due = f"{_many(backlog.due, 'schedule')} to be fired"
    page.facts(
        [
            ("Store", look.store),
            ("Leases", look.leases),
            ("Moved", look.moved),
            ("Namespace", None if look.namespace == "default" else look.namespace),
            ("Leader", _leader(look)),
            ("Next due", when(backlog.next_due, now) if backlog.next_due else "nothing"),
            ("Due", due if backlog.due else "nothing"),
            ("Backlog", waiting),
            ("Events", [_unread(group, now) for group in look.groups] or None),
            ("Relays", [_undelivered(relay, now) for relay in look.relays] or None),
            ("Hung", hung_lines(look.nodes, now) or None),
            ("Clock", _clock(look)),
        ]
    )
    page.line()
    holder = look.leader.holder if look.leader is not None else None
    page.table(
        [
            "NODE",
            "HOST",
            "PID",
            "SINCE",
            "RENEWED",
            "RUNNING",
            "+HUNG",
            "+SKEW",
            "+TASKS",
            "+QUEUES",
            "+APP",
            "+EDITION",
            "+VERSION",
        ],
        (
            [
                (node.holder or "").rpartition(":")[2] + (" *" if node.holder == holder else ""),
                node.host,
                node.pid,
                when(node.acquired_at, now),
                relative(node.renewed_at, now) if node.renewed_at else None,
                look.claims[node.holder or ""],
                number_of(node) or None,
                f"{skew_of(node):+.3g}s" if skew_of(node) else None,
                node.info.get("tasks"),
                _queues(node),
                node.info.get("app"),
                node.info.get("edition"),
                node.info.get("version"),
            ]
            for node in sorted(look.nodes, key=lambda n: (n.acquired_at or now, n.name))
        ),
        empty="No node is known here."
        if _elsewhere(look)
        else f"No node is running. Start one: {program().run}",
    )
    if holder is not None and look.nodes:
        page.line("* leads", style="dim")


def _many(number: int, noun: str) -> str:
    return ("more than " if number >= BACKLOG_COUNTED else "") + count(number, noun)


def _unread(group: EventGroup, now: datetime) -> str:
    oldest = f", the oldest {relative(group.oldest, now)}" if group.oldest else ""
    return f"{group.topic}, group {group.name}: {unread(group)} unread{oldest}"


def _undelivered(relay: RelayStatus, now: datetime) -> str:
    told = [f"{unread(relay)} to deliver" if relay.unread else "keeps up"]
    if relay.oldest:
        told.append(f"the oldest {relative(relay.oldest, now)}")
    told += [f"{relay.held:,} held"] * bool(relay.held)
    told += [f"{relay.parked:,} PARKED"] * bool(relay.parked)
    why = trouble(relay)
    return f"{relay.name}, {relay.location}: {', '.join(told)}" + (f" ({why})" if why else "")


def _elsewhere(look: Look) -> bool:
    """Was a leader in office whose lease was never here?"""
    unseen = look.leader is None and look.last is None and look.leases is None
    return unseen and look.backlog.term > 0


def _queues(node: LeaseRecord) -> str | None:
    """The queues that it is limited to, as it says: its row may have been edited."""
    told = node.info.get("queues")
    return ", ".join(map(str, told)) if isinstance(told, list) and told else None


def _leader(look: Look) -> list[str]:
    leader, now = look.leader, look.now
    if leader is None:
        if _elsewhere(look):
            return [
                f"NOT KNOWN HERE: term {look.backlog.term} was in office, and its lease was never",
                "here: the scheduler keeps its leases elsewhere. Say where: --leases redis://…",
            ]
        text = ["NOBODY LEADS: nothing is fired until a node takes over"]
        if look.nodes and all(node.info.get("leads") is False for node in look.nodes):
            text.append(
                "every node here only executes (leads=False, --no-lead): start one that leads"
            )
        if look.last is not None:
            ended = f" {relative(look.last.ended_at, now)}" if look.last.ended_at else ""
            why = f" ({look.last.end}{ended})" if look.last.end else ""
            text.append(
                f"last: pid {look.last.pid} on {look.last.host}, term {look.last.term}{why}"
            )
        return text
    office = "" if leader.term == look.backlog.term else ", not in office yet"
    renewed = relative(leader.renewed_at, now) if leader.renewed_at else "never"
    expires = relative(leader.expires_at, now) if leader.expires_at else "unknown"
    return [
        f"pid {leader.pid} on {leader.host}, term {leader.term}{office}",
        f"since {when(leader.acquired_at, now)}",
        f"renewed {renewed}; would expire {expires}",
        f"holder {leader.holder}",
    ]


def _clock(look: Look) -> str | None:
    if abs(look.skew) < SKEW_SHOWN:
        return "the store's clock agrees with this machine's"
    ahead = "behind" if look.skew > 0 else "ahead of"
    return f"the store's clock is {span(abs(look.skew))} {ahead} this machine's; the store's rules"


async def _watch(store: Store, backend: Opened) -> None:
    clock = SystemClock()
    while True:
        async with asyncio.timeout(ANSWER_WITHIN):
            look = await take_look(store, backend)
        click.clear()
        _print(look)
        click.echo("\nCtrl+C ends.")
        await clock.sleep(1.0)
