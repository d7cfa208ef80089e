"""Hung runs, as nodes tell of them in the records of their presence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tenure.backends.address import NOWHERE, Address
from tenure.cli.opened import Opened
from tenure.cli.output import iso
from tenure.model import Finding, LeaseRecord, RunRecord, RunState, Severity
from tenure.node.presence import PRESENCE
from tenure.words import count, relative

SHOWN = 5


@dataclass(frozen=True, slots=True)
class Hung:
    """A run that was told to end and goes on."""

    run: int
    claim: int
    node: LeaseRecord
    task: str
    since: datetime | None
    stack: str

    def text(self, now: datetime) -> str:
        since = "" if self.since is None else f", {relative(self.since, now)}"
        return f"told to end, and goes on in pid {self.node.pid} on {self.node.host}{since}"

    def to_json(self) -> dict[str, Any]:
        node = self.node
        return {
            "node": node.holder,
            "host": node.host,
            "pid": node.pid,
            "since": iso(self.since),
            "stack": self.stack,
        }


async def hung_among(opened: Opened, runs: Iterable[RunRecord]) -> dict[int, Hung]:
    """Those of these runs that are hung, by their number."""
    claims = {(run.id, run.claim) for run in runs if run.state is RunState.CLAIMED}
    if not claims:
        return {}
    nodes = await opened.leases.all(PRESENCE)
    found = (hung for node in nodes if node.live for hung in hung_of(node))
    return {hung.run: hung for hung in found if (hung.run, hung.claim) in claims}


def with_hung(run: dict[str, Any], hung: Mapping[int, Hung]) -> dict[str, Any]:
    found = hung.get(run["id"])
    return run | {"hung": found and found.to_json()}


def hung_of(node: LeaseRecord) -> Iterator[Hung]:
    """What this node says; its row may have been edited."""
    told = node.info.get("hung_runs")
    for each in told if isinstance(told, list) else ():
        if not isinstance(each, dict):
            continue
        run, claim = each.get("run"), each.get("claim")
        if isinstance(run, int) and isinstance(claim, int):
            since, task, stack = each.get("since"), each.get("task"), each.get("stack")
            yield Hung(run, claim, node, str(task), _moment(since), str(stack))


def number_of(node: LeaseRecord) -> int:
    told = node.info.get("hung")
    return told if isinstance(told, int) and told > 0 else 0


def is_ready(node: LeaseRecord) -> bool:
    return node.info.get("ready") is not False


def hung_lines(nodes: Iterable[LeaseRecord], now: datetime) -> list[str]:
    """For people: which, where, and what to do."""
    nodes = list(nodes)
    lines = [
        f"run {hung.run} ({hung.task}): {hung.text(now)}"
        for node in nodes
        for hung in hung_of(node)
    ]
    total = sum(map(number_of, nodes))
    shown = lines[:SHOWN]
    if total > len(shown):
        shown.append(f"and {total - len(shown):,} more")
    shown += [f"{_unready(node)}; restart it" for node in nodes if not is_ready(node)]
    return shown


def check_hung(nodes: Iterable[LeaseRecord], at: Address = NOWHERE) -> list[Finding]:
    """What `tenure doctor` finds in these live nodes."""
    nodes = list(nodes)
    found = [
        Finding(
            "hung runs",
            Severity.PROBLEM,
            f"{_unready(node)}: it executes nothing",
            "Restart it: it does not recover by itself.",
        )
        for node in nodes
        if not is_ready(node)
    ]
    total = sum(map(number_of, nodes))
    if total:
        which = [f"run {hung.run} ({hung.task})" for node in nodes for hung in hung_of(node)]
        shown = f": {', '.join(which[:SHOWN])}" if which else ""
        more = f" and {total - SHOWN:,} more" if which and total > SHOWN else ""
        found.append(
            Finding(
                "hung runs",
                Severity.WARNING,
                f"{count(total, 'hung run')}, told to end and still going on{shown}{more}",
                "Each keeps its lock key and its slot until it ends."
                f" `{at.command('runs', 'show', 'RUN')}` shows where its code is.",
            )
        )
    return found


def _unready(node: LeaseRecord) -> str:
    hung = number_of(node)
    have = "has" if hung == 1 else "have"
    return (
        f"pid {node.pid} on {node.host} is UNREADY: {count(hung, 'hung run')} {have} taken all its"
        " slots"
    )


def _moment(text: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return None if moment is None or moment.tzinfo is None else moment
