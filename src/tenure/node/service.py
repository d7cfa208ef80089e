"""What the services have in common: `run()` is `step()`, then a wait, for ever.

A step does one thing and returns how many seconds may pass until the next one (None: until woken).
Tests and the simulation call `step()` by hand.
"""

from __future__ import annotations

import asyncio
import traceback
from dataclasses import dataclass

from tenure.errors import StoreError
from tenure.facts import Facts, ServiceFailed, StoreFailed, StoreRecovered
from tenure.process.clock import Clock
from tenure.settings import Settings

RETRY = 0.25
RETRY_MOST = 5.0
Kind = tuple[type[BaseException], ...]
"""Of a failure: what it is, and what it came from."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every service of a process is given."""

    clock: Clock
    facts: Facts
    settings: Settings


class Service:
    """A loop that survives its store."""

    def __init__(self, around: Surroundings, retry_most: float = RETRY_MOST) -> None:
        self.clock = around.clock
        self.facts = around.facts
        self.settings = around.settings
        self._retry_most = retry_most
        self._awake = asyncio.Event()
        self._failing_since: float | None = None
        self._failures = 0
        self._kinds_told: set[Kind] = set()
        self._halting = False
        self._task: asyncio.Task[None] | None = None
        self._step_began: float | None = None

    @property
    def label(self) -> str:
        return type(self).__name__.lower()

    @property
    def failing(self) -> bool:
        """Did the last step fail?"""
        return self._failing_since is not None

    @property
    def has_ended(self) -> bool:
        """Did its loop end although nobody halted it?"""
        return self._task is not None and self._task.done()

    @property
    def stepping(self) -> float:
        """For how many seconds the present step has gone on; 0 between two steps."""
        began = self._step_began
        return 0.0 if began is None else self.clock.monotonic() - began

    def wake(self) -> None:
        """Take the next step now."""
        self._awake.set()

    async def step(self) -> float | None:
        raise TypeError(f"{self.label} does not say what a step is")

    async def run(self) -> None:
        while not self._halting:
            self._awake.clear()
            self._step_began = self.clock.monotonic()
            delay = await self.guarded_step()
            self._step_began = None
            if not self._halting:
                await self.clock.wait(self._awake, delay)

    def start(self) -> None:
        """Run on the running loop, until halted."""
        self._halting = False
        self._task = asyncio.create_task(self.run(), name=f"tenure {self.label}")

    async def halt(self, patience: float = 5.0) -> None:
        """Let the step under way end, and take no other."""
        self._halting = True
        self._awake.set()
        task, self._task = self._task, None
        if task is not None:
            await asyncio.wait([task], timeout=patience)
            task.cancel()
            await asyncio.wait([task], timeout=patience)

    async def guarded_step(self) -> float | None:
        """A step. Of several failures in a row, the first of each kind is reported: a store that
        does not answer may come back, and say why it takes nothing. Each is retried later."""
        try:
            delay = await self.step()
        except (StoreError, TimeoutError) as error:
            return self._step_failed(_kind(error), StoreFailed(self.label, why(error)))
        except Exception as error:  # noqa: BLE001 - a loop that ended would be worse than any defect
            defect = ServiceFailed(self.label, traceback.format_exc(limit=-6))
            return self._step_failed(_kind(error), defect)
        if self._failing_since is not None:
            after = self.clock.monotonic() - self._failing_since
            self._failing_since, self._failures = None, 0
            self._kinds_told.clear()
            self.facts.tell(StoreRecovered(self.label, round(after, 3)))
        return delay

    def _step_failed(self, kind: Kind, fact: StoreFailed | ServiceFailed) -> float:
        if self._failing_since is None:
            self._failing_since = self.clock.monotonic()
        if kind not in self._kinds_told:
            self._kinds_told.add(kind)
            self.facts.tell(fact)
        self._failures += 1
        return float(min(RETRY * 2 ** min(self._failures - 1, 10), self._retry_most))


def _kind(error: Exception) -> Kind:
    """A lost connection and a server that may not be written are both an unavailable store; they
    came from different errors of the driver."""
    cause = error.__cause__
    return (type(error),) if cause is None else (type(error), type(cause))


def why(error: Exception) -> str:
    """Why a call to a store failed; for a timeout, what the store was waiting for.

    The store puts that into the cancellation. `asyncio.timeout` makes it the cause of its own
    error, except in early releases of Python 3.11, such as Debian 12's.
    """
    reason = error.__cause__
    if reason is None and isinstance(error.__context__, asyncio.CancelledError):
        reason = error.__context__
    return str(error) or str(reason or "") or "no answer in time"
