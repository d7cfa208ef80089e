"""What goes wrong, and when: drawn from the seed before the history begins."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tenure.testing.simulation.network import Weather

QUIET = 11.0
"""How long it stays quiet at the end: longer than anything needs to come right again."""
LEADER = -1
"""As a target: whoever leads at that moment."""

KINDS = {
    "crash": 20,
    "pause": 25,
    "suspend": 6,
    "partition": 16,
    "outage": 8,
    "stop": 10,
    "store clock": 10,
    "node clock": 3,
    "rumour": 6,
    "evict": 4,
    "amnesia": 3,
    "edit": 14,
}
"""What can happen, and how often each does."""
_TRAPPED = ("crash", "pause", "suspend", "partition")
_TRAPS = {
    "renew": 1,
    "acquire": 1,
    "take": 3,
    "due": 1,
    "fire": 2,
    "claim": 2,
    "recover": 1,
    "release": 1,
    "prune": 1,
}
_IN_BETWEEN = (("due", "after"), ("fire", "before"))
_STATEMENTS = {"fire": 9, "claim": 5, "acquire": 3, "recover": 3, "prune": 4}
"""Operations with several statements in one transaction, and about how many."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that happens at a moment, or when a node comes to a point of its work."""

    at: float
    kind: str
    target: int
    lasts: float
    detail: Any = None
    trap: tuple[str, str] | None = None
    """Wait for this operation, of the target or of anybody: "before" or "after" its execution, or
    "at statement 3 of" it."""

    def __str__(self) -> str:
        whom = "leader" if self.target == LEADER else f"node {self.target}"
        when = f" {self.trap[1]} {self.trap[0]}" if self.trap else ""
        detail = "" if self.detail is None else f" ({self.detail})"
        return f"{self.kind} of {whom}{when} for {self.lasts:.3f} s{detail}"


@dataclass(slots=True)
class Plan:
    """All that is drawn before the history begins."""

    nodes: int
    quiet_from: float
    until: float
    weather: Weather
    embedded: float
    hints: bool
    """Whether deaths can be proven, as on one machine."""
    guard: bool
    """Whether the nodes also contend for a lease without a fence."""
    retention: float | None
    """After how many seconds what is finished is cleared away; None: not in this history."""
    rates: list[float]
    wall_offsets: list[float]
    faults: list[Fault] = field(default_factory=list)


def draw(
    source: Random,
    nodes: int | None = None,
    kinds: Collection[str] = tuple(KINDS),
    *,
    embedded: bool = False,
) -> Plan:
    """First a stretch of trouble, then a quiet one in which everything must come right.

    `embedded`: each node executes its own requests, in transactions that it can die in."""
    count = nodes or source.choice([2, 3, 3, 3, 3, 4, 5])
    quiet_from = source.uniform(8.0, 16.0)
    plan = Plan(
        nodes=count,
        quiet_from=quiet_from,
        until=quiet_from + QUIET,
        weather=_weather(source),
        embedded=1.0 if embedded else source.choice([0.0, 0.5, 1.0]),
        hints=source.random() < 0.4,
        guard=source.random() < 0.5,
        retention=source.choice([None, None, 2.5, 5.0]),
        rates=[source.uniform(0.99, 1.01) for _ in range(count)],
        wall_offsets=[source.choice([0.0, -3600.0, 86_400.0, 0.5]) for _ in range(count)],
    )
    possible = [kind for kind in KINDS if kind in kinds]
    for _ in range(source.randint(2, 8) if possible else 0):
        fault = _fault(source, plan, possible)
        plan.faults.append(_within(source, fault) if embedded else fault)
    plan.faults.sort(key=lambda fault: fault.at)
    return plan


def roll_out(source: Random, plan: Plan, editions: int) -> list[tuple[float, int]]:
    """From when on nodes start with which edition. Each time the nodes are replaced, one after the
    other; sometimes only some of them, and sometimes they roll back."""
    rollouts = []
    at, edition = 0.0, 0
    for _ in range(source.choice([1, 2, 2, 3])):
        at += source.uniform(0.5, 6.0)
        edition = (edition + 1) % editions
        rollouts.append((at, edition))
        for place in range(plan.nodes):
            if source.random() < 0.2:
                break
            at += source.uniform(0.0, 1.0)
            away = source.choice([0.05, 0.3, source.uniform(0.0, 4.0)])
            if at < plan.quiet_from - 1.0:
                plan.faults.append(Fault(at, "stop", place, away, "restart"))
    plan.faults.sort(key=lambda fault: fault.at)
    return rollouts


def rolling_restart(source: Random, nodes: int, seconds: float) -> Plan:
    """Nothing goes wrong, but one node after the other is stopped and started again, in any order,
    within so many seconds."""
    plan = Plan(
        nodes=nodes,
        quiet_from=seconds + 2.0,
        until=seconds + 2.0 + QUIET,
        weather=Weather(),
        embedded=0.0,
        hints=False,
        guard=False,
        retention=None,
        rates=[source.uniform(0.999, 1.001) for _ in range(nodes)],
        wall_offsets=[0.0] * nodes,
    )
    for number, place in enumerate(source.sample(range(nodes), nodes)):
        at = 1.0 + seconds * number / nodes
        plan.faults.append(Fault(at, "stop", place, source.uniform(0.5, 2.0), "restart"))
    return plan


def _fault(source: Random, plan: Plan, kinds: list[str]) -> Fault:
    at = source.uniform(1.0, plan.quiet_from - 0.5)
    kind = source.choices(kinds, [KINDS[kind] for kind in kinds])[0]
    lasts = source.choice([source.uniform(0.05, 1.0), source.uniform(1.0, 6.0)])
    target = LEADER if source.random() < 0.5 else source.randrange(plan.nodes)
    trap = None
    if kind in _TRAPPED and source.random() < 0.4:
        op = source.choices(list(_TRAPS), list(_TRAPS.values()))[0]
        trap = op, source.choice(["before", "after"])
        lasts = source.uniform(0.5, 6.0)
    if kind == "edit" and source.random() < 0.4:
        # Of what is about to be fired: it was planned as it was before.
        return Fault(at, kind, LEADER, lasts, "policy", source.choice(_IN_BETWEEN))
    return Fault(at, kind, target, lasts, _detail(source, kind), trap)


def _within(source: Random, fault: Fault) -> Fault:
    """Some crashes happen in the middle of a transaction."""
    if fault.kind != "crash" or source.random() < 0.5:
        return fault
    op = source.choice([*_STATEMENTS, "fire", "fire", "claim", "claim"])
    when = f"at statement {source.randint(1, _STATEMENTS[op])} of"
    return replace(fault, trap=(op, when))


def _detail(source: Random, kind: str) -> Any:
    if kind in ("partition", "outage"):
        return source.choice(["refused", "requests", "replies", "fading", "fading"])
    if kind == "store clock":
        # Within the limit of what is believed at once, and beyond it.
        size = source.choice([source.uniform(0.1, 4.0), source.uniform(6.0, 20.0)])
        return size if source.random() < 0.6 else -min(size, 8.0)
    if kind == "node clock":
        return source.uniform(-7200.0, 7200.0)
    if kind in ("crash", "stop"):
        return source.choice(["restart", "restart", "gone"])
    return None


def _weather(source: Random) -> Weather:
    """Most histories have a network with a character: one or two mishaps that are common."""
    if source.random() < 0.25:
        return Weather()
    likely = dict.fromkeys(Weather.__dataclass_fields__, 0.0)
    for name in source.sample(sorted(likely), source.randint(1, 4)):
        likely[name] = source.choice([0.01, 0.03, 0.08])
    if likely["lost_wakeup"]:
        likely["lost_wakeup"] = source.choice([0.2, 1.0])
    return Weather(**likely)
