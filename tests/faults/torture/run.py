"""The torture itself: harm, see that the cluster recovers, and harm again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.faults.support import TTL, Entry, Journal, Program, until
from tests.faults.torture.arena import Arena

CALM = 0.5, 2.5
"""Between one harm and the next, at the least and at the most."""
AT_ONCE = 0.2
"""How often the next harm comes before the cluster has recovered from the last."""
FLEETING = ("begin", "end", "tick.fired", "tick.stale", "run.succeeded")
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


@dataclass(frozen=True)
class Harm:
    name: str
    do: Callable[[], None]


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
        leader = [Harm("kill", self._kill), Harm("freeze", self._freeze)]
        if arena.can_be_cut:
            leader.append(Harm("cut", self._cut))
        strikes = [Harm(name, strike) for name, strike in arena.strikes.items()]
        self.harms = [*leader, *strikes]

    def run(self) -> None:
        """Each harm at least once, and on until the time is up. Raises AssertionError if the
        cluster does not recover."""
        for _ in range(3):
            self._add()
        self._news.wait("end")
        end = time.monotonic() + self._seconds
        while True:
            # In another order each time: a harm also meets what the one before has left.
            for harm in self._chance.sample(self.harms, len(self.harms)):
                time.sleep(self._chance.uniform(*CALM))
                self._write("harm", what=harm.name)
                harm.do()
                done = time.monotonic()
                if self._chance.random() >= AT_ONCE:
                    self._news.fact("tick.fired", after=done)
                    self._write("recovered", what=harm.name)
            if time.monotonic() >= end:
                break
        self._end()

    def _end(self) -> None:
        # The last harm has been survived when a leader fires and a node executes, once more; by
        # then the runs of a node that was killed have been taken from it.
        over = time.monotonic()
        self._news.fact("tick.fired", after=over + TTL + 2)
        self._news.wait("end", after=over + TTL + 2)
        self._cluster.stop_all(*self._programs)
        until(lambda: not self._arena.claimed(), "no run to be left claimed by a dead node")
        self._write("over")

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
            started = {fact.who for fact in self._news.facts("node.started")}
            if not taken or len(started & self._programs.keys()) < 2:
                return None
            return taken[-1].who if taken[-1].who in self._programs else None

        return until(look, "a leader and another node")

    def _succeeded(self, who: str) -> None:
        """Wait until another is the last to have taken office."""
        taken = "leader.took_office"
        until(lambda: self._news.facts(taken)[-1].who != who, f"a successor of {who}")

    # -- what is done to a leader -----------------------------------------------------------------

    def _kill(self) -> None:
        who = self._leader()
        self._programs.pop(who).kill()
        self._add()

    def _freeze(self) -> None:
        who = self._leader()
        program = self._programs[who]
        with self._arena.no_write():
            program.freeze()
        try:
            self._succeeded(who)
        finally:
            program.thaw()

    def _cut(self) -> None:
        who = self._leader()
        self._arena.cut(who, off=True)
        try:
            self._succeeded(who)
        finally:
            self._arena.cut(who, off=False)
