"""Makes the planned faults happen, and in the end puts everything right."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tenure.node.node import LEADER as LEADERSHIP
from tenure.testing.simulation.faults import LEADER, Fault, Plan
from tenure.testing.simulation.history import FAULT, History
from tenure.testing.simulation.loop import SimulationLoop
from tenure.testing.simulation.network import CALM, Link, Network
from tenure.testing.simulation.node import SimulatedNode
from tenure.testing.simulation.store import SimulatedStore
from tenure.testing.simulation.workload import Operator

HANDED_OVER = 3.0
"""How long before the end the leader is stopped politely."""

StartNode = Callable[[int], SimulatedNode]


class Chaos:
    """Has every node in its hands."""

    def __init__(
        self,
        plan: Plan,
        loop: SimulationLoop,
        network: Network,
        store: SimulatedStore,
        history: History,
        editor: Operator,
        start_node: StartNode,
        source: Random,
    ) -> None:
        self._plan = plan
        self._loop = loop
        self._network = network
        self._store = store
        self._history = history
        self._editor = editor
        self._start_node = start_node
        self._source = source
        self._armed: list[Fault] = []
        self._healed = False
        self._places: dict[int, SimulatedNode] = {}
        """The node that is now at each place."""
        self.nodes: list[SimulatedNode] = []
        """Every node that ever was."""

    def begin(self) -> None:
        for place in range(self._plan.nodes):
            self._loop.after(self._source.uniform(0.0, 0.3), self._occupy, place)
        self._network.set_weather(self._plan.weather)
        for fault in self._plan.faults:
            self._loop.after(fault.at, self._come, fault)
        self._loop.after(self._plan.quiet_from, self._heal)
        self._loop.after(self._plan.until - HANDED_OVER, self._hand_over)

    def _occupy(self, place: int) -> None:
        node = self._start_node(place)
        self.nodes.append(node)
        self._places[place] = node
        self._tell(node.name, "started", None)
        node.start()

    def _come(self, fault: Fault) -> None:
        if fault.trap is None:
            self._happen(fault, self._target(fault))
        else:
            self._armed.append(fault)
            self._network.trap = self._spring

    def _spring(self, link: Link, op: str, when: str) -> None:
        """A node came to a point of its work: is there a fault that waited for this?"""
        for fault in self._armed:
            if fault.trap != (op, when):
                continue
            place, node = next(
                ((p, n) for p, n in self._places.items() if n.link is link), (-1, None)
            )
            if node is None or not node.alive or node.process.stopped:
                continue
            if fault.target not in (LEADER, place):
                continue
            self._armed.remove(fault)
            if not self._armed:
                self._network.trap = None
            self._happen(fault, node)
            return

    def _target(self, fault: Fault) -> SimulatedNode | None:
        if fault.target == LEADER:
            return next((n for n in self._places.values() if n.is_leader), self._places.get(0))
        return self._places.get(fault.target)

    def _happen(self, fault: Fault, node: SimulatedNode | None) -> None:
        whole = fault.kind in ("outage", "store clock", "edit", "evict", "amnesia")
        if not whole and (node is None or not node.alive or node.process.stopped):
            return
        if not self._can(fault, node):
            return
        self._tell("*" if whole or node is None else node.name, fault.kind, str(fault))
        if whole:
            self._happen_to_all(fault)
        elif node is not None:
            self._happen_to(fault, node)

    def _can(self, fault: Fault, node: SimulatedNode | None) -> bool:
        """Some stores neither listen to rumours nor forget."""
        if fault.kind == "rumour" and node is not None:
            # A missing connection is no proof: the node may be alive.
            return self._store.medium.hint(set(node.holders), proof=False)
        return fault.kind != "amnesia" or self._store.medium.forget_leases()

    def _happen_to(self, fault: Fault, node: SimulatedNode) -> None:
        if fault.kind == "crash":
            node.crash()
            if self._plan.hints:
                self._loop.after(0.05, self._prove, node)
            self._replace_later(fault, node)
        elif fault.kind in ("pause", "suspend"):
            node.pause(suspend=fault.kind == "suspend")
            self._loop.after(fault.lasts, self._thaw, node)
        elif fault.kind == "partition":
            node.link.fading = fault.detail == "fading"
            node.link.cut = None if node.link.fading else fault.detail
            if node.link.fading:
                self._loop.after(min(0.7, fault.lasts / 2), self._cut, node)
            self._loop.after(fault.lasts, self._mend, node)
        elif fault.kind == "stop":
            node.stop(grace=fault.lasts / 4)
            self._replace_later(fault, node)
        elif fault.kind == "node clock":
            node.clock.wall_offset += fault.detail
        elif fault.kind == "rumour":
            self._loop.after(fault.lasts, self._store.medium.unhint)

    def _happen_to_all(self, fault: Fault) -> None:
        if fault.kind == "outage":
            self._network.outage = "requests" if fault.detail == "fading" else fault.detail
            self._loop.after(fault.lasts, self._end_outage)
        elif fault.kind == "store clock":
            self._store.clock.offset += fault.detail
        elif fault.kind == "edit":
            self._editor.edit(fault.detail)
        elif fault.kind == "evict":
            self._editor.evict(LEADERSHIP)

    def _replace_later(self, fault: Fault, node: SimulatedNode) -> None:
        others = sum(n.alive and not n.stopping for n in self._places.values() if n is not node)
        if fault.detail == "restart" or not others:
            self._loop.after(fault.lasts, self._replace, node)

    def _replace(self, node: SimulatedNode) -> None:
        place = next((p for p, n in self._places.items() if n is node), None)
        if place is not None and not self._healed:
            if node.stopping and node.alive:  # its time is over: as SIGKILL after SIGTERM
                node.crash()
            self._occupy(place)

    def _prove(self, node: SimulatedNode) -> None:
        self._store.medium.hint(set(node.holders), proof=True)

    def _thaw(self, node: SimulatedNode) -> None:
        if node.process.stopped and node.alive:
            self._tell(node.name, "thaw", None)
            node.thaw(timers_first=self._source.random() < 0.5)

    def _cut(self, node: SimulatedNode) -> None:
        if node.link.fading:
            node.link.cut = "requests"

    def _mend(self, node: SimulatedNode) -> None:
        self._tell(node.name, "mended", None)
        node.link.cut, node.link.fading = None, False

    def _end_outage(self) -> None:
        self._tell("*", "outage ends", None)
        self._network.outage = None

    def _heal(self) -> None:
        """From here on nothing goes wrong."""
        self._tell("*", "quiet from here", None)
        self._network.set_weather(CALM)
        self._network.outage = self._network.trap = None
        self._armed.clear()
        self._store.medium.unhint()
        for node in self._places.values():
            node.link.cut, node.link.fading = None, False
            node.thaw(timers_first=False)
        if not any(n.alive and not n.stopping for n in self._places.values()):
            self._occupy(0)
        self._healed = True

    def _hand_over(self) -> None:
        """In all this quiet the leader is asked to stop: nobody should notice."""
        leader = next((n for n in self._places.values() if n.is_leader), None)
        others = [n for n in self._places.values() if n.alive and n is not leader]
        if leader is not None and others:
            self._tell(leader.name, "handover", None)
            leader.stop(grace=1.0)

    def _tell(self, who: str, what: str, detail: object) -> None:
        self._history.add(self._loop.now, who, FAULT, what, detail)
