"""A program that believes to be on a machine of its own.

So nothing about another's death can be proven from its pid, and boot clocks are not compared:
sessions, the server's clock and the ttl decide, as they do between real machines.
"""

from __future__ import annotations

from tenure.backends.shared import liveness
from tenure.process import identity


def pretend(machine: str | None) -> None:
    if machine is not None:
        vars(identity)["clock_domain"] = lambda: machine
        vars(liveness)["clock_domain"] = lambda: machine
