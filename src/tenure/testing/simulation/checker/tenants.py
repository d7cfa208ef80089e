"""Whose runs are claimed when more wait than a claim takes.

turns    a tenant that has a run which could be claimed is not passed over time and again by claims
         that take all that they may, and take others of its priority. Runs without a tenant are one
         tenant. Each store object counts turns for itself, and tenants come and go: so each node
         is allowed two rounds of all tenants.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from tenure.model import RunRecord, RunState
from tenure.testing.simulation.checker.limits import Limits
from tenure.testing.simulation.checker.violation import Violation
from tenure.testing.simulation.history import PRUNED, RUN, STORE, Call, Event, History

Whose = tuple[int, str | None]
"""A priority and a tenant."""


def check_tenants(history: History) -> Iterator[Violation]:
    model = _Turns()
    for place, event in history.of(STORE, RUN, PRUNED):
        for text in model.see(place, event):
            yield Violation("turns", text, model.place, history)


class _Turns:
    def __init__(self) -> None:
        self._rows: dict[int, RunRecord] = {}
        self._limits = Limits()
        self._tenants: set[str | None] = set()
        self._call: tuple[str, Call] | None = None
        self._claimed: list[RunRecord] = []
        self._passed: dict[Whose, list[str]] = {}
        """By which nodes each was passed over, one call after the other."""
        self.place = 0

    def see(self, place: int, event: Event) -> Iterator[str]:
        if event.kind == RUN:
            run: RunRecord = event.detail
            self._rows[run.id] = run
            self._limits.row(run)
            self._tenants.add(run.tenant)
            if run.state is RunState.CLAIMED:
                self._claimed.append(run)
            return
        claimed, self._claimed = self._claimed, []
        if self._call is not None and self._call[1].op == "claim":
            yield from self._judge(*self._call, claimed)
        if event.kind == STORE:
            self._call, self.place = (event.source, event.detail), place
            self._limits.call(event.detail)
        elif event.what == "run":
            self._rows.pop(event.detail.id, None)

    def _judge(self, node: str, call: Call, claimed: list[RunRecord]) -> Iterator[str]:
        able = self._able(call.args[1], call.clock)
        for whose in self._passed.keys() - able:
            del self._passed[whose]
        for run in claimed:
            self._passed.pop((run.priority, run.tenant), None)
        limit = call.args[2] + (call.args[4] if len(call.args) > 4 else 0)
        if not claimed or len(claimed) < limit:
            return
        lowest = min(run.priority for run in claimed)
        served = {run.tenant for run in claimed if run.priority == lowest}
        for priority, tenant in able:
            if priority != lowest or tenant in served:
                continue
            nodes = self._passed.setdefault((priority, tenant), [])
            nodes.append(node)
            if len(nodes) > 2 * (len(self._tenants) + 1) * len(set(nodes)):
                nodes.clear()
                yield f"runs of tenant {tenant} and priority {priority} never have their turn"

    def _able(self, tasks: list[str], now: datetime) -> set[Whose]:
        """Who has runs that the claim has left and could have had; of no lock key, which are
        surely among them."""
        return {
            (run.priority, run.tenant)
            for run in self._rows.values()
            if run.state is RunState.WAITING
            and run.lock is None
            and run.due <= now
            and run.task in tasks
            and not self._limits.is_full(run.task)
        }
