"""Looks at the cluster from outside: through the store, and the journal."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Self

from tenure import triggers
from tenure.backends.sqlite import SQLiteBackend
from tenure.cli.demo.cluster import Cluster
from tenure.cli.demo.journal import Execution, JournalReader
from tenure.cli.demo.verdict import Evidence, Takeover
from tenure.clock import SystemClock
from tenure.model import LeaseRecord, RunRecord, RunState, Schedule
from tenure.node import LEADER
from tenure.presence import PRESENCE

RECENT = 200
ALL = 1_000_000


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The cluster at one moment."""

    now: datetime
    leader: LeaseRecord | None
    """The leadership, while somebody holds it; its holder may have died or be frozen."""
    present: frozenset[int]
    """The pids of the nodes that the store takes for alive."""
    schedules: list[Schedule]
    runs: list[RunRecord]
    """The latest, newest first."""
    executions: list[Execution]

    @property
    def unfinished(self) -> list[RunRecord]:
        return [run for run in self.runs if run.state in (RunState.WAITING, RunState.CLAIMED)]

    @property
    def next_due(self) -> datetime | None:
        moments = [s.next_due for s in self.schedules if s.active and s.next_due is not None]
        return min(moments, default=None)


class Observer:
    """Reads; holds no lease and claims nothing."""

    def __init__(self, cluster: Cluster) -> None:
        self._backend = SQLiteBackend(cluster.database)
        self._journal = JournalReader(cluster.journal)
        self._clock = SystemClock()

    async def __aenter__(self) -> Self:
        await self._backend.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._backend.close()

    async def look(self) -> Snapshot:
        leases = await self._backend.leases.all("tenure/")
        schedules = await self._backend.schedules.all()
        runs = await self._backend.runs.all(limit=RECENT)
        named = {record.name: record for record in leases}
        leader = named.get(LEADER)
        return Snapshot(
            now=self._clock.now(),
            leader=leader if leader is not None and leader.holder is not None else None,
            present=frozenset(
                record.pid
                for record in leases
                if record.name.startswith(PRESENCE) and record.live and record.pid is not None
            ),
            schedules=schedules,
            runs=runs,
            executions=self._journal.read(),
        )

    async def pid_of_term(self, term: int) -> int | None:
        history = await self._backend.leases.history(LEADER, limit=1_000)
        return next((tenure.pid for tenure in history if tenure.term == term), None)

    async def evidence(
        self, ready: datetime, until: datetime, takeovers: list[Takeover], ttl: float
    ) -> Evidence:
        schedules = await self._backend.schedules.all()
        occurrences = [
            occurrence
            for schedule in schedules
            for occurrence in await self._backend.schedules.occurrences(schedule.name, limit=ALL)
        ]
        return Evidence(
            triggers={s.name: triggers.load(s.spec.trigger) for s in schedules},
            created={s.name: s.created_at for s in schedules},
            ready=ready,
            until=until,
            occurrences=occurrences,
            runs=await self._backend.runs.all(limit=ALL),
            executions=self._journal.read(),
            takeovers=takeovers,
            ttl=ttl,
        )
