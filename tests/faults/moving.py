"""A cluster that is moved to another store, the copier killed at every step."""

from __future__ import annotations

import time
from typing import Any

from tenure.copying.copier import (
    ABORTED,
    BEGUN,
    CLEARED,
    COMPARED,
    COMPLETE,
    COPIED,
    DRAINED,
    DRAINING,
    MOVED,
    WRITTEN,
)
from tests.faults.postgres import PostgresCluster
from tests.faults.programs.copier import BATCH
from tests.faults.support import Cluster, Entry, Program, task, until

TTL = 2.0
DRAIN = 0.5
BEFORE = (BEGUN, BATCH, COPIED)
"""Steps during which the source goes on firing."""
AFTER = (DRAINING, DRAINED, MOVED, WRITTEN, COMPARED, COMPLETE)
BACK = ((DRAINING, False), (MOVED, False), (CLEARED, True), (ABORTED, True))
"""The way to an abort: where the copier is killed, and whether it was to abort."""
KILLS = len(BEFORE) + len(BACK) + len(AFTER)


class Move:
    """Nodes on a source, and later on a target; one journal of all that they do."""

    def __init__(self, source: Cluster, target: str, schedules: int) -> None:
        self._cluster = source
        self._journal = source.journal
        self._target = target
        self._tasks = [task(f"each-{n}", 1.0, work=0.02) for n in range(schedules)]

    def node(self, who: str, url: str | None = None) -> Program:
        more: dict[str, Any] = {} if url is None else {"url": url}
        return self._cluster.node(who, *self._tasks, ttl=TTL, **more)

    def copy(self, *lives: tuple[str | None, bool]) -> float:
        """Run copiers: to a step or the end, and to abort or not. Returns when all had ended."""
        who = f"copier-{len(self._cluster.programs)}"
        options: dict[str, Any] = {"source": self._cluster.url, "target": self._target}
        program = self._cluster.start("copier", who, lives=lives, drain=DRAIN, **options)
        assert program.wait() == 0, program.output
        return time.monotonic()

    def fires(self, after: float, *who: str) -> Entry:
        """Wait until something is fired after that, by one of these or anybody."""

        def ticks() -> list[Entry]:
            found = self._journal.entries("fact", who or None, after, name="tick.fired")
            return [entry for entry in found if entry["fired"]]

        return until(ticks, "a firing")[0]

    def through(self) -> None:
        """All of it: killed while the source fires, aborted, killed at each step, thawed."""
        nodes = [self.node("old-1"), self.node("old-2")]
        leader = self._cluster.leader()
        self._journal.wait("end")
        self.fires(self.copy(*((step, False) for step in BEFORE)))
        self.fires(self.copy(*BACK))
        frozen = next(node for node in nodes if node.who == self._leading(leader))
        self._cluster.freeze(frozen)
        # The last one finds all done.
        done = self.copy(*((step, False) for step in AFTER), (None, False))
        left = self._recorded()
        for who in ("new-1", "new-2"):
            self.node(who, self._target)
        for who in ("new-1", "new-2"):
            self._journal.fact("node.started", who)
        self.fires(done, "new-1", "new-2")
        thawed = frozen.thaw()
        self._journal.unavailable("was moved to", frozen.who, thawed)
        self.fires(thawed, "new-1", "new-2")
        self._cluster.stop_all()
        # Not what it told: it may have been frozen between a firing and saying so.
        assert self._recorded() == left, "something was fired in the source after the move"

    def _recorded(self) -> list[tuple[str, int]]:
        """The occurrences and runs that the source has."""
        source = self._cluster
        store = source.copy() if isinstance(source, PostgresCluster) else source.store
        rows = store.rows(
            "SELECT 'occurrence', schedule_uid FROM tenure_occurrence UNION ALL"
            " SELECT state, id FROM tenure_run ORDER BY 1, 2"
        )
        return [(kind, number) for kind, number in rows]

    def _leading(self, first: Entry) -> str:
        return [first, *self._journal.facts("leader.took_office")][-1].who
