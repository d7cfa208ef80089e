"""What happens in the demo: nodes are started, harmed by their pids, and watched from outside."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from tenure.backends.sqlite import SQLiteBackend
from tenure.cli.demo.node import DATABASE, JOURNAL, SCHEDULES, TTL, Execution
from tenure.cli.demo.verdict import BOUND, Takeover, Verdict
from tenure.errors import TenureError
from tenure.model import LeaseRecord, RunRecord, RunState, Schedule
from tenure.node.names import LEADER, PRESENCE
from tenure.node.ticker import AHEAD
from tenure.process.clock import SystemClock

FRAME = 0.1
JUST_BEFORE = timedelta(seconds=AHEAD + 0.01)
"""Before the leader looks what is due then: later it has handed that in, and its successor would
have nothing to fire until something else is due."""
FROZEN_FOR = TTL + 2.0
_AIM_FOR = 4.0
_PATIENCE = 20.0
_START_WITHIN = 60.0
_ALL = 1_000_000
_clock = SystemClock()


class Fate(StrEnum):
    """What the demo has done to a node, and with which signal."""

    RUNNING = "SIGCONT"
    KILLED = "SIGKILL"
    FROZEN = "SIGSTOP"
    STOPPED = "SIGTERM"


# What is done to the leader: in a demo of how many seconds, after which share of them, and how it
# is announced and told.
ACTS = {
    Fate.KILLED: (0, 0.22, "kill -9 the leader", "SIGKILL: killed the leader, {}, term {}"),
    Fate.FROZEN: (16, 0.42, "freeze the leader", "SIGSTOP: froze the leader, {}, past its ttl"),
    Fate.STOPPED: (8, 0.8, "stop the leader gracefully", "SIGTERM: asked the leader, {}, to stop"),
}


def acts(seconds: float, nodes: int) -> list[Fate]:
    """As many acts as there is time for, and nodes to survive them."""
    if nodes < 3 or not hasattr(signal, "SIGSTOP"):
        return [Fate.KILLED]
    return [fate for fate, act in ACTS.items() if seconds >= act[0]]


class Node(subprocess.Popen[bytes]):
    """One process. Its output goes to a file of its own."""

    def __init__(self, number: int, folder: Path) -> None:
        self.name = f"node {number}"
        self.fate = Fate.RUNNING
        self._log = folder / f"node-{number}.log"
        command = [sys.executable, "-P", "-m", "tenure.cli.demo.node", str(folder)]
        env = {k: v for k, v in os.environ.items() if not k.startswith("TENURE_")}
        # Ctrl-C is for the demo, which then stops its nodes; and the kernel ends a frozen node of a
        # group whose parent has died.
        group = None if sys.platform == "win32" else 0
        pipe = subprocess.PIPE
        with self._log.open("wb") as log:
            super().__init__(
                command, stdin=pipe, stdout=log, stderr=log, env=env, process_group=group
            )

    @property
    def alive(self) -> bool:
        return self.poll() is None

    def meet(self, fate: Fate) -> datetime:
        """Send it the signal, and say when."""
        at, self.fate = _clock.now(), fate
        self.send_signal(getattr(signal, fate, signal.SIGTERM))  # all that Windows has
        if fate is Fate.FROZEN:
            os.waitpid(self.pid, os.WUNTRACED)  # until it does stand still
        return at

    def check(self) -> None:
        """Complain if it has ended though nobody asked it to."""
        if not self.alive and self.fate is Fate.RUNNING:
            said = self._log.read_text(errors="replace").split("\n")[-2:]
            raise TenureError(f"{self.name} ended by itself; --keep leaves its log: {said[0]}")


class Story:
    """Plays the acts. A view reads it after each `show`; `tell` gets each line of the log."""

    def __init__(self, folder: Path) -> None:
        self.nodes: list[Node] = []
        self.takeovers: list[Takeover] = []
        self.lines: list[tuple[float, str, str]] = []
        """When, a sign (✗ for harm, ✓ for what went well), and what."""
        self.coming = "", 0.0
        """What comes next, and at which second."""
        self.show: Callable[[], object] = lambda: None
        self.tell: Callable[[float, str], object] = lambda _at, _text: None
        # As seen at the last look:
        self.now = _clock.now()
        self.leader: LeaseRecord | None = None  # while held; its holder may be dead or frozen
        self.leading: Node | None = None  # its node, in whatever state it is
        self.present: set[int | None] = set()  # pids of the nodes that the store takes for alive
        self.schedules: list[Schedule] = []
        self.runs: list[RunRecord] = []  # the latest, newest first
        self.executions: list[Execution] = []
        self._unfinished: list[RunRecord] = []
        self._folder = folder
        self._store = SQLiteBackend(folder / DATABASE)
        self._journal = (folder / JOURNAL).open("a+")
        self._half_line = ""
        self._begun = _clock.monotonic()
        self._known_term = 0

    @property
    def elapsed(self) -> float:
        return _clock.monotonic() - self._begun

    async def play(self, seconds: float, count: int, acts: list[Fate]) -> Verdict:
        self.say(f"starting {count} nodes on one SQLite file, ttl {TTL:g} s")
        await self._store.open()
        try:
            for number in range(1, count + 1):
                self.nodes.append(Node(number, self._folder))
            await self._wait_for_nodes()
            ready, begun = self.now, self.elapsed  # the acts begin when the stage is set
            for fate in acts:
                _, share, announced, _ = ACTS[fate]
                await self._watch_until(begun + share * seconds, announced)
                await self._do(fate)
            await self._watch_until(begun + seconds, "the end")
            until = _clock.now()
            await self._settle(until)
            find = self._store.schedules.occurrences
            return Verdict(
                created={schedule.name: schedule.created_at for schedule in self.schedules},
                ready=ready,
                until=until,
                occurrences=[o for name in SCHEDULES for o in await find(name, limit=_ALL)],
                runs=await self._store.runs.find(limit=_ALL),
                executions=self.executions,
                takeovers=self.takeovers,
            )
        finally:
            await self._store.close()

    def end(self) -> None:
        """End every process that was started, whatever state it is in."""
        for node in self.nodes:
            node.kill()
            node.communicate()  # closes its pipe, and waits
        self._journal.close()

    async def _wait_for_nodes(self) -> None:
        self.coming = "waiting for the nodes", 0.0
        pids = {node.pid for node in self.nodes}
        if not await self._watch(lambda: self._known_term and self.present >= pids, _START_WITHIN):
            raise TenureError(f"the nodes did not get ready within {_START_WITHIN:g} s.")
        self.say(f"{len(pids)} nodes are up: one leads, all execute {len(SCHEDULES)} schedules")

    async def _do(self, fate: Fate) -> None:
        """Do it to the leader, just before something is due, and watch for the successor."""
        node, term = await self._just_before_a_firing(idle=fate is Fate.FROZEN)
        at = self._freeze(node) if fate is Fate.FROZEN else node.meet(fate)
        self.coming = "", 0.0
        self.takeovers.append(Takeover(fate.name.lower(), node.name, node.pid, term, at))
        told = ACTS[fate][3].format(f"{node.name} (pid {node.pid})", term)
        self.say(told, " " if fate is Fate.STOPPED else "✗")
        await self._watch_takeover(self.takeovers[-1])
        if fate is Fate.FROZEN:
            left = FROZEN_FOR - (_clock.now() - at).total_seconds()
            await self._watch_until(self.elapsed + left, f"thaw {node.name}")
            node.meet(Fate.RUNNING)
            self.say(f"SIGCONT: thawed {node.name}, which still takes itself for the leader")
            if await self._watch(lambda: node.pid in self.present, BOUND):
                self.say(f"{node.name} learns that term {term} is over, and stands by", "✓")

    async def _just_before_a_firing(self, *, idle: bool) -> tuple[Node, int]:
        """The hardest moment: something comes due when there is nobody to fire it.

        Returns the leader and its term. `idle`: while it executes nothing, so that what happens to
        runs of a lost node does not mix with what happens to its office.
        """
        begun = self.elapsed
        while (waited := self.elapsed - begun) < _PATIENCE:
            await self._look()
            leader, node = self.leader, self.leading
            if leader and leader.live and node and node.fate is Fate.RUNNING:
                due = min((s.next_due for s in self.schedules if s.next_due), default=self.now)
                ahead = (due - JUST_BEFORE - _clock.now()).total_seconds()
                busy = idle and any(run.node == leader.holder for run in self._unfinished)
                if 0 <= ahead < FRAME and not busy:
                    await _clock.sleep(ahead)
                    if _clock.now() < due:
                        return node, leader.term
                elif waited > _AIM_FOR:
                    return node, leader.term
            await _clock.sleep(FRAME / 4)
        raise TenureError("nobody leads, and nobody takes over.")

    def _freeze(self, node: Node) -> datetime:
        """Not inside a write, which would stop every writer of the file: so lock it meanwhile."""
        with closing(sqlite3.connect(self._folder / DATABASE, timeout=10)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            return node.meet(Fate.FROZEN)

    async def _watch_takeover(self, lost: Takeover) -> None:
        def fired() -> list[RunRecord]:
            return [run for run in self.runs if run.term > lost.term]

        if not await self._watch(fired, _PATIENCE):
            self.say("nobody took over", "✗")
            return
        first, node = fired()[-1], self.leading
        lost.successor, lost.successor_pid = (node.name, node.pid) if node else (None, None)
        lost.successor_term, lost.fired_at = first.term, first.created_at
        late = f"fired {first.schedule} {lost.seconds:.2f} s later"
        self.say(f"{lost.successor} took over, term {first.term}: {late}", "✓")

    async def _settle(self, until: datetime) -> None:
        """Let what is due come to its end, and stop the nodes politely."""
        self.coming = "letting the last runs end", 0.0

        def settled() -> bool:
            due = any(s.next_nominal and s.next_nominal <= until for s in self.schedules)
            return not due and not self._unfinished

        if not await self._watch(settled, _PATIENCE):
            self.say("some runs did not come to their end", "✗")
        # Standbys first: a leader that leaves before them would only be succeeded once more.
        for node in sorted(self.nodes, key=lambda node: node is self.leading):
            if node.fate is Fate.RUNNING:
                node.meet(Fate.STOPPED)
        await self._watch(lambda: not any(node.alive for node in self.nodes), _PATIENCE)
        await self._look()  # at what they did to their very end
        self.say("stopped the remaining nodes")

    async def _watch_until(self, second: float, coming: str) -> None:
        self.coming = coming, second
        await self._watch(lambda: False, second - self.elapsed)

    async def _watch(self, seen: Callable[[], object], within: float) -> bool:
        end = self.elapsed + within
        while (left := end - self.elapsed) > 0:
            await self._look()
            if seen():
                return True
            await _clock.sleep(min(FRAME, left))
        return False

    async def _look(self) -> None:
        for node in self.nodes:
            node.check()
        # In this order: a schedule that has moved on shows its run, and a run whoever fired it.
        self.schedules = list((await self._store.schedules.find()).values())
        self.runs = await self._store.runs.find(limit=200)
        self._unfinished = [r for r in self.runs if r.state in (RunState.WAITING, RunState.CLAIMED)]
        leases = await self._store.leases.all("tenure/")
        leader = next((r for r in leases if r.name == LEADER and r.holder), None)
        self.present = {r.pid for r in leases if r.name.startswith(PRESENCE) and r.live}
        *lines, self._half_line = (self._half_line + self._journal.read()).split("\n")
        self.executions += map(Execution.from_line, lines)
        self.leader, self.now = leader, _clock.now()
        self.leading = next((n for n in self.nodes if leader and n.pid == leader.pid), None)
        if leader and leader.live and leader.term > self._known_term:
            self._known_term = leader.term
            awaited = self.takeovers and not self.takeovers[-1].successor
            if not awaited and self.leading:
                self.say(f"{self.leading.name} leads, term {leader.term}")
        self.show()

    def say(self, text: str, sign: str = " ") -> None:
        self.lines.append((self.elapsed, sign, text))
        self.tell(self.elapsed, text)
        self.show()
