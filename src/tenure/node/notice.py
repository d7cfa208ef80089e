"""The notice: what the leader makes known in its own lease, which every standby reads anyway.

Only the leader lists the presences of nodes. The notice has what the others need to know: who the
deputies are, how many nodes there are, and which editions of each app are live. So the load on the
store does not grow with the square of the cluster's size.

**Deputies** watch the leader closely; all others wait for a wake-up or the ttl. There are at most
`DEPUTIES`, chosen by rendezvous hashing: each node has a fixed rank, so that few deputies change
when nodes come and go. They are on as many hosts as possible, and in as many processes, other than
the leader's first: a host or a process that goes down with all its nodes should leave a deputy. In
a small cluster, and as long as there is no notice, every node is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from tenure.model import LeaseRecord
from tenure.node.roster import Edition

DEPUTIES = 3
Place = tuple[str | None, int | None]
"""The host and process of a node."""


@dataclass(frozen=True, slots=True)
class Notice:
    """What the leader of a term makes known, or has taken over from its predecessor."""

    term: int
    deputies: tuple[str, ...]
    nodes: int
    """How many there are, the leader among them."""
    editions: Mapping[str, frozenset[Edition]]
    """The live ones of each app."""
    changes: int = 0
    """How often the editions have changed in this term. By this a node that was frozen meanwhile
    sees that they have, even if they are the same again."""

    def appoints(self, node: str) -> bool:
        """Is this node a deputy?"""
        return self.nodes <= DEPUTIES + 1 or node in self.deputies

    def in_term(self, term: int, leader: str) -> Notice:
        """The same under a new leader, which is not its own deputy."""
        others = tuple(node for node in self.deputies if node != leader)
        return replace(self, term=term, deputies=others, changes=0)

    def as_info(self) -> dict[str, Any]:
        """In the form in which it is stored with the lease."""
        return {
            "deputies": list(self.deputies),
            "nodes": self.nodes,
            "changes": self.changes,
            "editions": {
                app: sorted(editions, key=lambda edition: edition or "")
                for app, editions in sorted(self.editions.items())
            },
        }


def notice_in(record: LeaseRecord | None) -> Notice | None:
    """The notice in a leader's lease; None if there is none, or if it is unreadable because it was
    edited by hand."""
    info = {} if record is None else record.info
    deputies, nodes, editions = (info.get(key) for key in ("deputies", "nodes", "editions"))
    if record is None or not (
        isinstance(deputies, list)
        and all(isinstance(node, str) for node in deputies)
        and type(nodes) is int
        and isinstance(editions, Mapping)
        and all(_are_editions(told) for told in editions.values())
    ):
        return None
    live = {str(app): frozenset(told) for app, told in editions.items()}
    changes = info.get("changes")
    return Notice(record.term, tuple(deputies), nodes, live, changes if type(changes) is int else 0)


def deputies_among(places: Mapping[str, Place], leaders: Place = (None, None)) -> tuple[str, ...]:
    """Of these nodes, those with the first ranks; of a host that has one already, such as the
    leader's, only if there is no other, and so with processes."""
    ranked = sorted(places, key=_rank)
    hosts, processes = Counter({leaders[0]: 1}), Counter({leaders: 1})
    chosen: list[str] = []

    def already(node: str) -> tuple[int, int]:
        return hosts[places[node][0]], processes[places[node]]

    while ranked and len(chosen) < DEPUTIES:
        node = min(ranked, key=already)  # the first of these, in order
        ranked.remove(node)
        chosen.append(node)
        hosts[places[node][0]] += 1
        processes[places[node]] += 1
    return tuple(chosen)


def _rank(node: str) -> bytes:
    return sha256(f"deputy/{node}".encode()).digest()


def _are_editions(told: object) -> bool:
    return isinstance(told, list) and all(e is None or isinstance(e, str) for e in told)
