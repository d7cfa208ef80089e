"""What happens in the demo, and when: the acts, and the watching in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum

from tenure.cli.demo.cluster import CAN_FREEZE, Cluster, Fate, NodeProcess
from tenure.cli.demo.node import SCHEDULES, TTL
from tenure.cli.demo.observer import ALL, Observer, Snapshot
from tenure.cli.demo.verdict import SLACK, Takeover, Verdict, judge
from tenure.clock import SystemClock
from tenure.errors import TenureError
from tenure.ticker import AHEAD

FRAME = 0.1
JUST_BEFORE = timedelta(seconds=AHEAD) + timedelta(milliseconds=10)
"""Before the leader looks what is due then: later it has handed that in, and its successor would
have nothing to fire until something else is due."""
FROZEN_FOR = TTL + 2.0
_START_WITHIN = 60.0
_SETTLE_WITHIN = 20.0
_TAKEOVER_WITHIN = TTL + SLACK + 5.0
_AIM_FOR = 4.0


class Deed(StrEnum):
    """What is done to the leader."""

    KILL = "killed"
    FREEZE = "frozen"
    STOP = "stopped"


@dataclass(frozen=True, slots=True)
class Act:
    at: float
    """Seconds after the beginning."""
    deed: Deed


def acts(seconds: float, nodes: int, *, kill: bool = True) -> list[Act]:
    """As many acts as there is time for, and nodes to survive them."""
    if not kill:
        return []
    planned = [Act(0.22 * seconds, Deed.KILL)]
    left = nodes - 1
    if left >= 2 and seconds >= 16 and CAN_FREEZE:
        planned.append(Act(0.42 * seconds, Deed.FREEZE))
    if left >= 2 and seconds >= 8:
        planned.append(Act(0.8 * seconds, Deed.STOP))
    return planned


class Tone(StrEnum):
    PLAIN = "plain"
    HARM = "harm"
    GOOD = "good"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the log of what happened."""

    at: float
    text: str
    tone: Tone = Tone.PLAIN


@dataclass(slots=True)
class Scene:
    """All that a view may show."""

    nodes: list[NodeProcess]
    ttl: float = TTL
    seconds: float = 0.0
    elapsed: float = 0.0
    snapshot: Snapshot | None = None
    takeovers: list[Takeover] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    coming: tuple[str, float] | None = None
    """What comes next, and at which second."""


class Story:
    """Plays the acts on a cluster, and tells what happens."""

    def __init__(
        self,
        cluster: Cluster,
        observer: Observer,
        *,
        seconds: float,
        acts: list[Act],
        show: Callable[[Scene], None],
        tell: Callable[[Line], None],
    ) -> None:
        self.scene = Scene(cluster.nodes, seconds=seconds)
        self._cluster = cluster
        self._observer = observer
        self._seconds = seconds
        self._acts = acts
        self._show = show
        self._tell = tell
        self._clock = SystemClock()
        self._begun = self._clock.monotonic()
        self._ready_at = self._clock.now()
        self._leading: tuple[int, int] | None = None

    async def play(self) -> Verdict:
        await self._wait_for_nodes()
        for act in self._acts:
            await self._watch_until(act.at, _ANNOUNCED[act.deed])
            await self._do(act.deed)
        await self._watch_until(self._seconds, "the end")
        return await self._end()

    async def _wait_for_nodes(self) -> None:
        count = len(self._cluster.nodes)
        self._say(f"starting {count} nodes on one SQLite file, ttl {TTL:g} s")
        self.scene.coming = ("waiting for the nodes", 0.0)
        everybody = {node.pid for node in self._cluster.nodes}

        def ready(snapshot: Snapshot) -> bool:
            return self._leading is not None and snapshot.present >= everybody

        if not await self._watch(ready, _START_WITHIN):
            raise TenureError(f"the nodes did not get ready within {_START_WITHIN:g} s.")
        self._ready_at = self._clock.now()
        self._seconds += self.scene.elapsed  # the acts begin when the stage is set
        self._acts = [replace(act, at=act.at + self.scene.elapsed) for act in self._acts]
        self.scene.seconds = self._seconds
        self._say(f"{count} nodes are up: one leads, all execute {len(SCHEDULES)} schedules")

    # -- the deeds --------------------------------------------------------------------------------

    async def _do(self, deed: Deed) -> None:
        """Do it to the leader, just before something is due, and watch for the successor."""
        node, term = await self._just_before_a_firing(idle=deed is Deed.FREEZE)
        who = f"the leader, {node.name} (pid {node.pid})"
        if deed is Deed.FREEZE:
            at = await self._cluster.freeze(node)
            text, tone = f"SIGSTOP: froze {who}, past its ttl", Tone.HARM
        elif deed is Deed.KILL:
            at = node.kill()
            text, tone = f"SIGKILL: killed {who}, term {term}", Tone.HARM
        else:
            at = node.ask_to_stop()
            text, tone = f"SIGTERM: asked {who}, to stop", Tone.PLAIN
        self.scene.coming = None
        self.scene.takeovers.append(Takeover(deed.value, node.name, node.pid, term, at))
        self._say(text, tone)
        await self._watch_takeover()
        if deed is Deed.FREEZE:
            left = FROZEN_FOR - (self._clock.now() - at).total_seconds()
            await self._watch_until(self.scene.elapsed + left, f"thaw {node.name}")
            node.thaw()
            self._say(f"SIGCONT: thawed {node.name}, which still takes itself for the leader")
            if await self._watch(lambda snapshot: node.pid in snapshot.present, TTL + SLACK):
                self._say(f"{node.name} learns that term {term} is over, and stands by", Tone.GOOD)

    async def _just_before_a_firing(self, *, idle: bool) -> tuple[NodeProcess, int]:
        """The hardest moment: something comes due when there is nobody to fire it.

        Returns the leader and its term. `idle`: while it executes nothing, so that what happens to
        runs of a lost node does not mix with what happens to its office.
        """
        begun = self._clock.monotonic()
        while self._clock.monotonic() - begun < _TAKEOVER_WITHIN + _AIM_FOR:
            snapshot = await self._look()
            leader, now = snapshot.leader, self._clock.now()
            node = self._cluster.with_pid(leader.pid if leader else None)
            due = snapshot.next_due
            if leader and leader.live and node and node.fate is Fate.RUNNING:
                if self._clock.monotonic() - begun > _AIM_FOR:
                    return node, leader.term
                busy = idle and any(run.node == leader.holder for run in snapshot.unfinished)
                ahead = (due - JUST_BEFORE - now).total_seconds() if due else -1.0
                if 0 <= ahead < FRAME and not busy:
                    await self._clock.sleep(ahead)
                    if due and self._clock.now() < due:
                        return node, leader.term
            await self._clock.sleep(FRAME / 4)
        raise TenureError("nobody leads, and nobody takes over.")

    async def _watch_takeover(self) -> None:
        lost = self.scene.takeovers[-1]

        def fired(snapshot: Snapshot) -> bool:
            return any(run.term > lost.term for run in snapshot.runs)

        if not await self._watch(fired, _TAKEOVER_WITHIN):
            self._say("nobody took over", Tone.HARM)
            return
        snapshot = self.scene.snapshot
        assert snapshot is not None
        first = min((run for run in snapshot.runs if run.term > lost.term), key=lambda r: r.id)
        pid = await self._observer.pid_of_term(first.term)
        node = self._cluster.with_pid(pid)
        taken = replace(
            lost,
            successor=node.name if node else None,
            successor_pid=pid,
            successor_term=first.term,
            fired_at=first.created_at,
        )
        self.scene.takeovers[-1] = taken
        self._say(
            f"{taken.successor} took over, term {taken.successor_term}:"
            f" fired {first.schedule} {taken.seconds:.2f} s later",
            Tone.GOOD,
        )

    async def _end(self) -> Verdict:
        """Let what is due come to its end, stop the nodes politely, and look at the evidence."""
        until = self._clock.now()
        self.scene.coming = ("letting the last runs end", self.scene.elapsed)

        def settled(snapshot: Snapshot) -> bool:
            moving = [s for s in snapshot.schedules if s.next_nominal and s.next_nominal <= until]
            return not moving and not snapshot.unfinished

        if not await self._watch(settled, _SETTLE_WITHIN):
            self._say("some runs did not come to their end", Tone.HARM)
        # Standbys first: a leader that leaves before them would only be succeeded once more.
        leader = self._leading[0] if self._leading else None
        for node in sorted(self._cluster.at(Fate.RUNNING), key=lambda node: node.pid == leader):
            node.ask_to_stop()
        await self._watch(lambda _: not any(n.alive for n in self._cluster.nodes), _SETTLE_WITHIN)
        self._say("stopped the remaining nodes")
        takeovers = self.scene.takeovers
        return judge(await self._observer.evidence(self._ready_at, until, takeovers, TTL))

    # -- watching ---------------------------------------------------------------------------------

    async def _watch_until(self, second: float, what: str) -> None:
        self.scene.coming = (what, second)
        while self._clock.monotonic() - self._begun < second:
            await self._look()
            left = second - (self._clock.monotonic() - self._begun)
            await self._clock.sleep(max(0.0, min(FRAME, left)))

    async def _watch(self, seen: Callable[[Snapshot], bool], within: float) -> bool:
        until = self._clock.monotonic() + within
        while True:
            if seen(await self._look()):
                return True
            if self._clock.monotonic() > until:
                return False
            await self._clock.sleep(FRAME)

    async def _look(self) -> Snapshot:
        self._cluster.check()
        snapshot = self.scene.snapshot = await self._observer.look()
        self.scene.elapsed = self._clock.monotonic() - self._begun
        leader = snapshot.leader
        if leader is not None and leader.live and leader.pid is not None:
            leading = leader.pid, leader.term
            takeovers = self.scene.takeovers
            expected = bool(takeovers) and leader.term <= (takeovers[-1].successor_term or ALL)
            if leading != self._leading and not expected:
                node = self._cluster.with_pid(leader.pid)
                self._say(f"{node.name if node else leader.pid} leads, term {leader.term}")
            self._leading = leading
        self._show(self.scene)
        return snapshot

    def _say(self, text: str, tone: Tone = Tone.PLAIN) -> None:
        self.scene.elapsed = self._clock.monotonic() - self._begun
        line = Line(self.scene.elapsed, text, tone)
        self.scene.lines.append(line)
        self._tell(line)
        self._show(self.scene)


_ANNOUNCED = {
    Deed.KILL: "kill -9 the leader",
    Deed.FREEZE: "freeze the leader",
    Deed.STOP: "stop the leader politely",
}
