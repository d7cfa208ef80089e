"""A world for the tests of users: their scheduler in memory, in virtual time, moved by hand.

The real node, planner and worker on the simulation's loop, and the memory store. docs/testing.md
says how to use it, ADR 0042 why it is as it is.
"""

from tenure.testing.world.node import WorldNode
from tenure.testing.world.runtime import Failure
from tenure.testing.world.world import World

__all__ = ["Failure", "World", "WorldNode"]
