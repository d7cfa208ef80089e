"""Tenants take turns: which runs a claim takes if more wait than it may take.

Of the runs of one priority each tenant gets an equal share, its oldest first; all runs without a
tenant count as one tenant. What is left goes to the oldest of all. If there are more tenants than
places, some have their turn in this claim and the others in the next ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

NEAR = 500
"""A tenant's share is chosen from among so many of the oldest runs of each of its tasks."""
FEWEST_ASKED = 20
NOBODY = ""
"""The tenant of runs without one, if there are tenants: the index by tenant then finds them too. If
there are none, it is NULL, and nothing has to be written to that index."""


class Waiting(NamedTuple):
    """What the choice needs to know about a waiting run."""

    id: int
    reruns: bool
    priority: int
    tenant: Any
    due: Any


Ask = Callable[[int, Any, int], Sequence[Any]]
"""The tenants with runs of a priority, after the given tenant, at most so many."""
Take = Callable[[int, Any, int], Sequence[Waiting]]
"""The runs of a priority and tenant that may be claimed, the oldest first, at most so many."""


class ClaimTurns:
    """Remembers whose turn it is, at each priority."""

    def __init__(self) -> None:
        self.after: dict[int, Any] = {}
        """By priority, the last tenant that had its turn; if there is none, a round begins."""

    def order(self, front: Sequence[Waiting], ask: Ask, take: Take) -> list[Waiting]:
        """The runs that a claim takes, in their order. `front` has the first of all that wait, as
        many as the claim may take."""
        edge = front[-1].priority
        places = sum(each.priority == edge for each in front)
        most = most_asked(len(front))
        asked = list(ask(edge, self.after.get(edge, ""), most))
        at_end = len(asked) < most
        able: list[Any] = []
        for tenant in (*asked, NOBODY) if at_end else asked:
            able += [tenant] if take(edge, tenant, 1) else []
            if len(able) > places:
                break
        chosen = able[:places]
        if len(able) > places:
            self.turn_after(edge, chosen[-1])
        else:
            self.turn_after(edge, "" if at_end else asked[-1])
        share = places // max(1, len(chosen))
        rounds = zip_longest(*(take(edge, tenant, share) for tenant in chosen))
        above = [each for each in front if each.priority > edge]
        turns = [each for turn in rounds for each in turn if each is not None]
        taken = {each.id: each for each in (*above, *turns, *front)}
        return list(taken.values())[: len(front)]

    def turn_after(self, priority: int, tenant: Any) -> None:
        """Next it is the turn of the tenants after this one; if it is empty, a round begins."""
        if tenant:
            self.after[priority] = tenant
        else:
            self.after.pop(priority, None)


def most_asked(limit: int) -> int:
    """How many tenants a claim of so many runs considers."""
    return max(FEWEST_ASKED, 2 * limit)
