"""The torture itself: harm, see that the cluster recovers, and harm again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from tests.faults.support import Entry, Journal, Program, until
from tests.faults.torture.arena import Arena

CALM = 0.5, 2.5
"""Between one harm and the next, at the least and at the most."""
AT_ONCE = 0.2
"""How often the next harm comes before the cluster has recovered from the last."""
LONG = 3.0
"""Seconds. Executions take a few milliseconds: what takes longer waits for a dead node."""
FLEETING = (
    *("begin", "end", "tick.fired", "tick.stale", "occurrence.skipped", "occurrence.missed"),
    *("run.succeeded", "run.retried", "run.refused"),
)
"""Of these only the newest is looked at here; there are hundreds each second."""


class News(Journal):
    """The journal of a long run: it keeps what is rare."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal.path)
        self._newest: dict[str, Entry] = {}

    def _all(self) -> list[Entry]:
        for entry in self.news():
            kind = entry["name"] if entry.event == "fact" else entry.event
            if kind in FLEETING:
                self._newest[kind] = entry
            else:
                self._read.append(entry)
        return [*self._read, *self._newest.values()]


class Torture:
    """Three nodes; the leader is harmed, and replaced if it died."""

    def __init__(self, arena: Arena, seconds: float, seed: int) -> None:
        self._arena = arena
        self._cluster = arena.cluster
        self._seconds = seconds
        self._chance = random.Random(seed)
        self._news = News(arena.cluster.journal)
        self._count = 0
        self._programs: dict[str, Program] = {}
        self._to_leader: dict[str, Callable[[str], None]] = {
            "kill": self._kill,
            "freeze": self._freeze,
            **({"cut": self._cut} if arena.can_be_cut else {}),
        }
        self._harms = [*self._to_leader, *arena.strikes]

    def run(self) -> None:
        """Each harm at least once, and on until the time is up. Raises AssertionError if the
        cluster does not recover."""
        for _ in range(3):
            self._add()
        self._news.wait("end")
        end = time.monotonic() + self._seconds
        while True:
            # In another order each time: a harm also meets what the one before has left.
            for harm in self._chance.sample(self._harms, len(self._harms)):
                time.sleep(self._chance.uniform(*CALM))
                leader = self._leader()
                self._write("harm", what=harm)
                if harm in self._to_leader:
                    self._to_leader[harm](leader)
                else:
                    self._arena.strikes[harm]()
                done = time.monotonic()
                if self._chance.random() >= AT_ONCE:
                    self._news.fact("tick.fired", after=done)
                    self._write("recovered", what=harm)
            if time.monotonic() >= end:
                break
        self._end()

    def _end(self) -> None:
        """The last harm has been survived when all nodes are up, a leader fires, and the runs of
        nodes that died were taken from them and executed."""
        until(lambda: self._started() >= self._programs.keys(), "all nodes to be up")
        self._news.fact("tick.fired", after=time.monotonic())
        self._news.wait("end", after=time.monotonic())
        overdue = self._arena.overdue
        until(lambda: not overdue(LONG), "the runs of the dead to be executed", within=60)
        self._cluster.stop_all(*self._programs)

    def _write(self, event: str, **values: object) -> None:
        self._cluster.journal.write(event, "torture", **values)

    def _add(self) -> None:
        self._count += 1
        who = f"node-{self._count}"
        self._programs[who] = self._arena.start(who)

    def _leader(self) -> str:
        """Who took office last, and lives; when there is another that can succeed it."""

        def look() -> str | None:
            taken = self._news.facts("leader.took_office")
            if len(self._started()) < 2 or not taken or taken[-1].who not in self._programs:
                return None
            return taken[-1].who

        return until(look, "a leader and another node")

    def _started(self) -> set[str]:
        """The nodes that are up. One that found no server while it started has ended, and is
        started again: as a service manager does."""
        for who, program in list(self._programs.items()):
            if not program.running:
                assert self._news.facts("start.failed", who), f"{who} ended:\n{program.output}"
                del self._programs[who]
                self._add()
        return {f.who for f in self._news.facts("node.started")} & self._programs.keys()

    def _succeeded(self, who: str) -> None:
        """Wait until another is the last to have taken office."""
        taken = "leader.took_office"
        until(lambda: self._news.facts(taken)[-1].who != who, f"a successor of {who}")

    # -- what is done to a leader -----------------------------------------------------------------

    def _kill(self, who: str) -> None:
        self._programs.pop(who).kill()
        self._add()

    def _freeze(self, who: str) -> None:
        program = self._programs[who]
        with self._arena.no_write():
            program.freeze()
        try:
            self._succeeded(who)
        finally:
            program.thaw()

    def _cut(self, who: str) -> None:
        self._arena.cut(who, off=True)
        try:
            self._succeeded(who)
        finally:
            self._arena.cut(who, off=False)
