"""`tenure status`: the cluster at a glance."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import click

from tenure.cli.held import state
from tenure.cli.output import Page, count, iso, print_json, relative, span, when
from tenure.cli.store import ANSWER_WITHIN, Opened, Store, as_json, of_store_and_leases
from tenure.clock import SystemClock
from tenure.model import Backlog, LeaseRecord, Tenure
from tenure.node import LEADER
from tenure.presence import PRESENCE

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
    in_office: int
    nodes: list[LeaseRecord]
    claims: Counter[str]
    backlog: Backlog
    last: Tenure | None


@click.command()
@of_store_and_leases
@as_json
@click.option("--watch", is_flag=True, help="Look again every second, until Ctrl+C.")
def status(store: Store, as_json: bool, watch: bool) -> None:
    """Who leads, which nodes live, what is due and waiting.

    Exit code 1 if nobody leads.

    \b
    Examples:
      tenure status
      tenure status --url sqlite:////var/lib/app/tenure.db --watch
      tenure status --url postgresql://app@db/app --leases redis://cache
      tenure status --json | jq .leader.pid
    """
    if watch and as_json:
        raise click.UsageError("--watch and --json do not go together.")
    if watch:
        with suppress(KeyboardInterrupt):
            store.ask(lambda backend: _watch(store, backend), within=None)
        return
    look = store.ask(lambda backend: take_look(store, backend))
    if as_json:
        print_json(to_json(look))
    else:
        _print(look)
    if look.leader is None:
        raise click.exceptions.Exit(1)


async def take_look(store: Store, backend: Opened) -> Look:
    before = SystemClock().now()
    now = await backend.schedules.now()
    skew = (now - before).total_seconds()
    lease_now = await backend.lease_now() if backend.leases_elsewhere else now
    leader = await backend.leases.read(LEADER)
    if leader is not None and state(leader, lease_now) != "live":
        leader = None
    presences = await backend.leases.all(PRESENCE)
    claimed = await backend.runs.all(state="claimed", limit=10_000)
    history = await backend.leases.history(LEADER, limit=1) if leader is None else []
    return Look(
        store=backend.location,
        leases=backend.leases_elsewhere,
        namespace=store.namespace,
        now=now,
        skew=skew if abs(skew) >= 0.001 else 0.0,
        leader=leader,
        in_office=await backend.schedules.floor(LEADER),
        nodes=[node for node in presences if state(node, lease_now) == "live"],
        claims=Counter(run.node for run in claimed if run.node is not None),
        backlog=await backend.schedules.backlog(),
        last=history[0] if history else None,
    )


def to_json(look: Look) -> dict[str, Any]:
    leader, backlog = look.leader, look.backlog
    return {
        "store": look.store,
        "leases": look.leases,
        "namespace": look.namespace,
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
            "in_office": leader.term == look.in_office,
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
                "release": node.info.get("release"),
                "version": node.info.get("version"),
                "tasks": node.info.get("tasks"),
                "concurrency": node.info.get("concurrency"),
                "claimed": look.claims[node.holder or ""],
            }
            for node in look.nodes
        ],
        "next_due": iso(backlog.next_due),
        "due": backlog.due,
        "backlog": backlog.waiting,
        "claimed": backlog.claimed,
        "oldest_waiting": iso(backlog.oldest_waiting),
    }


def _print(look: Look) -> None:
    page, now, backlog = Page(), look.now, look.backlog
    waiting = f"{count(backlog.waiting, 'run')} waiting, {backlog.claimed} running"
    if backlog.oldest_waiting is not None and backlog.oldest_waiting < now:
        waiting += f"; the oldest was due {relative(backlog.oldest_waiting, now)}"
    due = f"{count(backlog.due, 'schedule')} to be fired"
    page.facts(
        [
            ("Store", look.store),
            ("Leases", look.leases),
            ("Namespace", None if look.namespace == "default" else look.namespace),
            ("Leader", _leader(look)),
            ("Next due", when(backlog.next_due, now) if backlog.next_due else "nothing"),
            ("Due", due if backlog.due else "nothing"),
            ("Backlog", waiting),
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
            "+TASKS",
            "+APP",
            "+RELEASE",
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
                node.info.get("tasks"),
                node.info.get("app"),
                node.info.get("release"),
                node.info.get("version"),
            ]
            for node in sorted(look.nodes, key=lambda n: (n.acquired_at or now, n.name))
        ),
        empty="No node is running. Start one: tenure run MODULE:ATTR",
    )
    if holder is not None and look.nodes:
        page.line("* leads", style="dim")


def _leader(look: Look) -> list[str]:
    leader, now = look.leader, look.now
    if leader is None:
        text = ["NOBODY LEADS: nothing is fired until a node takes over"]
        if look.last is not None:
            ended = f" {relative(look.last.ended_at, now)}" if look.last.ended_at else ""
            why = f" ({look.last.end}{ended})" if look.last.end else ""
            text.append(
                f"last: pid {look.last.pid} on {look.last.host}, term {look.last.term}{why}"
            )
        elif look.in_office and look.leases is None:
            text += [
                f"term {look.in_office} was in office, and its lease was never here: if the",
                "scheduler keeps its leases elsewhere, say where: --leases redis://…",
            ]
        return text
    office = "" if leader.term == look.in_office else ", not in office yet"
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
    ahead = "ahead of" if look.skew > 0 else "behind"
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
