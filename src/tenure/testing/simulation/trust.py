"""Who trusts which lease, from one moment to the next."""

from __future__ import annotations

from collections.abc import Sequence

from tenure.testing.simulation.loop import SimulationLoop
from tenure.testing.simulation.node import SimulatedNode

Lease = tuple[str, str, int]
"""Name, holder, term."""


class Trust:
    """Looks only at nodes that did something, and at all when a deadline has come: there may be a
    thousand of them, and it is asked at every operation."""

    def __init__(self, loop: SimulationLoop, nodes: Sequence[SimulatedNode]) -> None:
        self._loop = loop
        self._nodes = nodes
        """Grows while the history does."""
        self._known = 0
        self._living: dict[str, SimulatedNode] = {}
        self._trusted: dict[str, list[Lease]] = {}
        self._until = float("inf")

    def look(self) -> bool:
        """Has it changed?"""
        active = self._loop.active
        for node in self._nodes[self._known :]:
            self._living[node.name] = node
            active.add(node.name)
        self._known = len(self._nodes)
        if self._loop.now >= self._until:
            active.update(self._living)
            self._until = float("inf")
        changed = False
        for name in sorted(active & self._living.keys()):
            node = self._living[name]
            trusted = node.trusted()
            self._until = min(self._until, node.trusts_until())
            if trusted != self._trusted.get(name, []):
                self._trusted[name] = trusted
                changed = True
            if node.process.dead:
                del self._living[name]
                self._trusted.pop(name, None)
        active.clear()
        return changed

    def all(self) -> tuple[Lease, ...]:
        return tuple(lease for leases in self._trusted.values() for lease in leases)
