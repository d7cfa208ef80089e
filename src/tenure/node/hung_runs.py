"""Hung runs: they were told to end, because of their timeout or otherwise, and go on.

A thread cannot be stopped, and a coroutine may ignore its cancellation. Such a run keeps its claim,
its lock key and its slot until it ends. The node says so, in its log and in the record of its
presence, where every process can read it: which run, since when, and where its code is. A node
whose slots are all taken by hung runs is unready: it can execute nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tenure.facts import NodeReady, NodeUnready, RunHung
from tenure.node.service import Service, Surroundings
from tenure.tasks.run import Run

HUNG_AFTER = 1.0
"""A run that goes on for so many seconds after it was told to end is hung."""
DESCRIBED = 20
"""How many hung runs a presence describes at most. It always says how many there are."""

Claim = tuple[int, int]
Describe = Callable[[Mapping[str, Any]], None]


@dataclass(slots=True)
class _Expected:
    """A run that is to end."""

    run: Run
    at: float
    """From when on it is hung."""
    within: float
    late: bool = False
    """Had it not begun when it was to end?"""

    def again(self, now: float) -> bool:
        """Is it to be looked at once more, because its time has not passed yet? That begins when
        the run does, and a thread or a loop may keep it waiting."""
        if self.run.stack is None:
            self.late, self.at = True, now + HUNG_AFTER
        elif self.late and not self.run.cancelled:
            self.late, self.at = False, now + self.within + HUNG_AFTER
        else:
            return False
        return True


class HungRuns(Service):
    """Those of one node. Costs nothing while every run ends within its timeout."""

    def __init__(self, describe: Describe, around: Surroundings) -> None:
        """`describe` adds to what the presence of this node says."""
        super().__init__(around)
        self._describe = describe
        self._expected: dict[Claim, _Expected] = {}
        self._look_at = float("inf")
        self._hung: dict[Claim, dict[str, Any]] = {}
        self._changed = False
        self._unready = False
        self._full_since = 0.0
        """While all slots are taken: since when."""

    @property
    def label(self) -> str:
        return "hung runs"

    @property
    def ready(self) -> bool:
        """Is there a slot that no hung run has taken?"""
        return not self._hung or len(self._hung) < self.settings.concurrency

    @property
    def full_for(self) -> float:
        """For how many seconds hung runs have had all slots; 0 if there is one."""
        return 0.0 if self.ready else self.clock.monotonic() - self._full_since

    @property
    def count(self) -> int:
        return len(self._hung)

    def begun(self, run: Run, timeout: float | None) -> None:
        if timeout is not None:
            self._expect(run, timeout)

    def told(self, run: Run) -> None:
        """It was told to end."""
        if (run.id, run.claim) not in self._hung:
            self._expect(run, 0.0)

    def ended(self, claim: Claim) -> None:
        self._expected.pop(claim, None)
        if self._hung.pop(claim, None) is not None:
            self._changed = True
            self.wake()

    def left_behind(self, runs: Iterable[Run]) -> None:
        """The node stops, and these go on."""
        for run in runs:
            if (run.id, run.claim) not in self._hung:
                self._tell(run)

    async def step(self) -> float | None:
        now = self.clock.monotonic()
        for claim, expected in list(self._expected.items()):
            if expected.at <= now and not expected.again(now):
                del self._expected[claim]
                self._tell(expected.run)
        if self._changed:
            self._changed = False
            self._say()
        self._look_at = min((each.at for each in self._expected.values()), default=float("inf"))
        return None if not self._expected else self._look_at - now

    def _expect(self, run: Run, within: float) -> None:
        claim, at = (run.id, run.claim), self.clock.monotonic() + within + HUNG_AFTER
        if claim not in self._expected or at < self._expected[claim].at:
            self._expected[claim] = _Expected(run, at, within)
        if at < self._look_at:
            self._look_at = at
            self.wake()

    def _tell(self, run: Run) -> None:
        if run.stack is None:  # not begun; or it has a process of its own, and will be killed
            return
        stack = run.stack()
        about = run.id, run.task, run.schedule, run.nominal, run.attempt, run.node
        self.facts.tell(RunHung(*about, stack=stack))
        if self.ready:
            self._full_since = self.clock.monotonic()  # if this one takes the last
        self._hung[run.id, run.claim] = {
            "run": run.id,
            "claim": run.claim,
            "task": run.task,
            "since": self.clock.now().isoformat(),
            "stack": stack,
        }
        self._changed = True

    def _say(self) -> None:
        hung = list(self._hung.values())
        self._describe(
            {"hung": len(hung), "hung_runs": hung[:DESCRIBED], "ready": self.ready} if hung else {}
        )
        if self._unready == self.ready:
            self._unready = not self.ready
            fact = NodeUnready if self._unready else NodeReady
            self.facts.tell(fact(self.settings.concurrency, len(hung)))
