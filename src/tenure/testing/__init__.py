"""For the tests of users and of backend authors: a world in virtual time, a clock, the contract.

`tenure.testing.contract` needs pytest and hypothesis; this module needs nothing.
Nothing in Tenure imports it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tenure.testing.clock import FakeClock

if TYPE_CHECKING:
    from tenure.scheduler.base import BaseScheduler
    from tenure.testing.recorder import Recording
    from tenure.testing.world import World

__all__ = ["FakeClock", "recording", "testing"]
_START = datetime(2026, 1, 1, tzinfo=UTC)


def testing(  # no test, in spite of its name; what is below says so to pytest
    scheduler: BaseScheduler,
    *,
    start: datetime = _START,  # noqa: PT028
    nodes: int = 1,  # noqa: PT028
    lend: Callable[[], Any] | None = None,  # noqa: PT028
) -> World:
    """Your scheduler in memory and in virtual time: `with testing(scheduler) as world:`.

    Its tasks and schedules are as you declared them; nothing is opened at its URL. `start` is the
    world's time when the block begins, `nodes` the number of processes. `lend` returns a connection
    for each run of a transactional task.
    """
    from tenure.testing.world import World  # the simulation's parts: only for those who use it

    return World(scheduler, start, nodes, lend)


testing.__test__ = False  # type: ignore[attr-defined]


def recording(scheduler: BaseScheduler) -> Recording:
    """Your scheduler with nothing started: `with recording(scheduler) as recorded:`.

    `add`, `put`, `enqueue` and `emit` are recorded in memory, whatever `connection=` they are
    given, and nothing is opened at its URL. `recorded.run()` executes what was enqueued.
    """
    from tenure.testing.recorder import Recording

    return Recording(scheduler)
