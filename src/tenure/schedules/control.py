"""What you may ask of a run that exists: that it ends, is tried again, or says what its task
returned. With errors that say what is in the way."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from tenure.backends.address import NOWHERE, Address
from tenure.backends.base import RunStore
from tenure.errors import (
    ConfigError,
    Conflict,
    NotFound,
    ResultNotKept,
    ResultTimeout,
    TaskCancelled,
    TaskFailed,
)
from tenure.model import PENDING, RETRIED, Cancelling, Result, RunRecord, RunState
from tenure.printable import brief, exception_line
from tenure.process.clock import Clock
from tenure.tasks.arguments import NUMBER_MOST, whole
from tenure.tasks.registry import Tasks
from tenure.tasks.results import NOT_KEPT, value_of

LOOK_WHILE_ENDING = 0.1
LOOK_FIRST, LOOK_LEAST_OFTEN = 0.02, 1.0
"""How many seconds pass between two looks at a run that is waited for: longer each time."""
UNKNOWN_NODE = 15.0
"""How many seconds to wait for a node that nobody knows: it may be gone, or announce itself in
another store."""
Lives = Coroutine[Any, Any, bool | None]
"""None: there is no record of it."""
_OPEN = (RunState.WAITING, RunState.CLAIMED)


class HasRuns(Protocol):
    """A store, or what a transaction of the user's sees of it."""

    @property
    def runs(self) -> RunStore: ...


class RunControl:
    """Runs of a store, or what a transaction of the user's sees of them."""

    def __init__(self, store: HasRuns, at: Address = NOWHERE) -> None:
        self._runs = store.runs
        self._at = at

    async def cancel(self, run_id: int) -> RunRecord:
        """Cancel it. The run as it is then: cancelled; or claimed, and its node is told.

        `Conflict` if it has ended in another way, `NotFound` if there is none.
        """
        done = (await self._runs.cancel([run_id])).get(run_id)
        run = await self.get(run_id)
        if done is Cancelling.ENDED and run.state is not RunState.CANCELLED:
            raise Conflict(
                f"run {run_id} {ended(run)} before it could be cancelled. Nothing was changed."
            )
        return run

    async def clear(self, run: RunRecord, patience: float, reason: str, clock: Clock) -> RunRecord:
        """Free the lock key of a claimed run. It is asked to end, and its node is told. If its
        claim still stands after `patience` seconds, the claim is ended here: what it still writes
        or reports is refused. The run as it is then.

        `Conflict` if that claim is over already, if the run was claimed again meanwhile, or if a
        transaction of its task has confirmed the claim and is still open.
        """
        if not _is_same_claim(await self.get(run.id), run):
            raise Conflict(
                f"run {run.id} changed meanwhile: that claim of it is over. Nothing was changed."
            )
        await self._runs.cancel([run.id])
        until, current = clock.monotonic() + patience, await self.get(run.id)
        while _is_same_claim(current, run) and (left := until - clock.monotonic()) > 0:
            await clock.sleep(min(LOOK_WHILE_ENDING, left))
            current = await self.get(run.id)
        if not _is_same_claim(current, run):
            return _without_claim(current)
        ended = Result(run.id, run.claim, run.node or "", RunState.CANCELLED, reason)
        batch = await self._runs.claim(run.node or "", (), 0, [ended])
        if run.id in batch.held:
            raise Conflict(
                f"run {run.id} was asked to end, and keeps its lock: a transaction of its task has"
                " confirmed that it still counts, and is open. Try again when that has ended."
            )
        return _without_claim(await self.get(run.id))

    async def retry(self, run_id: int, *, even_succeeded: bool = False) -> RunRecord:
        """Let it wait again. `Conflict` if it waits or is claimed, or has succeeded and nobody
        insists; `NotFound` if there is none."""
        done = await self._runs.retry([run_id], even_succeeded=even_succeeded)
        run = await self.get(run_id)
        if not done.get(run_id):
            raise Conflict(f"run {run_id} {why_not_retried(run)}. Nothing was changed.")
        return run

    async def result(
        self, run_id: int, timeout: float | None, clock: Clock, lives: Callable[[str], Lives]
    ) -> Any:
        """Wait for its end, and return what its task returned.

        No store tells when a run ends: it looks now and then. One that succeeded in a transaction
        of its task's own may not have returned yet; its node will tell, if it `lives`.
        """
        until = math.inf if timeout is None else clock.monotonic() + timeout
        pause, run = LOOK_FIRST, await self.get(run_id)
        patience = math.inf
        while run.state in _OPEN or run.result == PENDING:
            if run.result == PENDING and not (living := await lives(run.node or "")):
                patience = min(patience, clock.monotonic() + UNKNOWN_NODE)
                if living is False or clock.monotonic() >= patience:
                    run = await self.get(run_id)  # it may have told since, and left
                    break
            left = until - clock.monotonic()
            if left <= 0:
                raise ResultTimeout(
                    f"run {run_id} {_goes_on(run)} after {timeout:g} s. It goes on.", run
                )
            await clock.sleep(min(pause, left))
            pause = min(pause * 1.5, LOOK_LEAST_OFTEN)
            run = await self.get(run_id)
        return self._value(run)

    def _value(self, run: RunRecord) -> Any:
        shown = f"`{self._at.command('runs', 'show', name=str(run.id))}` shows it."
        if run.state is RunState.CANCELLED:
            raise TaskCancelled(f"run {run.id} {ended(run)}: {_sentence(run.error)}", run)
        if run.state is not RunState.SUCCEEDED:
            what = _sentence(exception_line(run.error or "") or None)
            raise TaskFailed(f"run {run.id} {ended(run)}: {what} {shown}", run)
        if run.result == "":
            why = run.error or f"{NOT_KEPT}: its task says keep_result=False"
            raise ResultNotKept(f"run {run.id} succeeded, but {_sentence(why)}", run)
        if run.result == PENDING:
            raise ResultNotKept(
                f"run {run.id} succeeded in a transaction of its own, but its node {run.node} ended"
                " before it could tell what the function returned.",
                run,
            )
        try:
            return value_of(run.result)
        except ValueError:
            raise ResultNotKept(
                f"run {run.id} has a result that is not JSON. {shown}", run
            ) from None

    async def get(self, run_id: int) -> RunRecord:
        for found in await self._runs.find([run_id]):
            return found
        raise NotFound(
            f"there is no run {run_id}. `{self._at.command('runs', 'list')}` shows the latest;"
            " finished ones are deleted when they are older than the retention time."
        )


def _goes_on(run: RunRecord) -> str:
    if run.result == PENDING:
        return "has succeeded, but its function has not returned"
    return f"is still {run.state}"


def _without_claim(run: RunRecord) -> RunRecord:
    if run.state is RunState.CLAIMED:
        raise Conflict(
            f"run {run.id} was claimed again meanwhile, by {run.node}, and has its lock again. It"
            " was asked to end. Look again."
        )
    return run


def _is_same_claim(current: RunRecord, run: RunRecord) -> bool:
    return current.state is RunState.CLAIMED and current.claim == run.claim


def chosen_runs(
    schedule: object, state: object, limit: object, task: object, tasks: Tasks
) -> dict[str, Any]:
    """Which runs are asked for, checked: a name that cannot be would find nothing, and look like
    an answer."""
    if schedule is not None and not isinstance(schedule, str):
        raise ConfigError(
            f"schedule={brief(schedule)} is not the name of a schedule. For the runs of a task ask"
            " runs(task=…)."
        )
    if state is not None and state not in list(RunState):
        states = ", ".join(repr(str(each)) for each in RunState)
        raise ConfigError(f"state={brief(state)} is not known; choose from {states}.")
    if task is not None and not isinstance(task, str):
        task = tasks.named(task).name  # type: ignore[arg-type] # anything else is an unknown task
    most = whole("limit", limit, 0, NUMBER_MOST)
    return {"schedule": schedule, "state": state, "limit": most, "task": task}


def ended(run: RunRecord) -> str:
    """How it came to its end: a verb, and when."""
    verb = {RunState.LOST: "was lost", RunState.CANCELLED: "was cancelled"}.get(
        run.state, run.state
    )
    return f"{verb} at {run.finished_at:%Y-%m-%d %H:%M:%S} UTC" if run.finished_at else str(verb)


def _sentence(error: str | None = None) -> str:
    """An error with one full stop: some have one of their own."""
    return f"{(error or 'no error is on record').rstrip().removesuffix('.')}."


def why_not_retried(run: RunRecord, insist: str = "even_succeeded=True") -> str:
    """What is in the way, of a run that was left alone: a verb, and what to do."""
    if run.state is RunState.WAITING:
        return "waits already"
    if run.state is RunState.CLAIMED:
        return f"is being executed by {run.node}: wait for its end, or cancel it"
    if run.state in RETRIED:
        return f"had not ended when you asked; it {ended(run)} just now: ask again"
    return f"{ended(run)}: to run it once more, insist with {insist}"
