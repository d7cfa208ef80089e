"""Hundreds of nodes, each stopped and started again: nobody notices.

TENURE_NODES=1000 takes as many, and two minutes.
"""

from __future__ import annotations

import asyncio
import os
from random import Random

import pytest

from tenure.node.node import LEADER
from tenure.settings import Settings
from tenure.tasks.registry import Tasks
from tenure.testing.simulation import check, simulate
from tenure.testing.simulation.faults import rolling_restart
from tenure.testing.simulation.history import END, FACT, FAULT, History
from tenure.triggers import every

SECONDS = 20.0
MANY = int(os.environ.get("TENURE_NODES", "400"))


def few_tasks(source: Random) -> Tasks:
    """Each run wakes all: many runs would only take longer."""
    tasks = Tasks()

    async def work() -> None:
        await asyncio.sleep(source.uniform(0.0, 0.3))

    for number, seconds in enumerate((2, 3, 5)):
        tasks.declare(work, trigger=every(seconds=seconds), name=f"task{number}")
    return tasks


@pytest.mark.slow
@pytest.mark.parametrize(
    ("nodes", "seed"),
    [(30, 1), (30, 2), (200, 3), (MANY, 4)],
)
def test_nothing_is_lost_and_leadership_moves_with_the_leader_only(nodes: int, seed: int) -> None:
    plan = rolling_restart(Random(seed), nodes, SECONDS)
    settings = Settings(hint_every=2.0, poll=2.0)
    history = simulate(seed, plan=plan, settings=settings, workload=few_tasks)
    broken = check(history)
    assert not broken, "\n\n".join(violation.report() for violation in broken[:3])
    stopped = leaders_stopped(history)
    assert stopped, "the leader was never stopped"
    assert len(terms(history)) == 1 + len(stopped)
    [state] = [e.detail for e in history.events if e.kind == END and e.what == "schedules"]
    ended = [run for run in state["runs"] if run.finished_at]
    assert len(ended) > SECONDS
    assert {run.state for run in ended} == {"succeeded"}


def terms(history: History) -> list[str]:
    """Who came to lead, one after the other."""
    facts = [event.detail for event in history.events if event.kind == FACT]
    return [f.holder for f in facts if f.name == "lease.acquired" and f.lease == LEADER]


def leaders_stopped(history: History) -> list[str]:
    """Those that led when they were stopped."""
    leads, found = "", []
    for event in history.events:
        if event.kind == FACT and event.what == "lease.acquired" and event.detail.lease == LEADER:
            leads = event.source
        elif event.kind == FAULT and event.what in ("stop", "handover") and event.source == leads:
            found.append(leads)
    return found
