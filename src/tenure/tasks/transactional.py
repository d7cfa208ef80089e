"""Transactional tasks: what they write, and that their run succeeded, commit together.

The task is called with a connection of the store, inside a transaction. When it has returned, its
result is recorded as the last statement, if its claim is still the present one, and the transaction
is committed. If anything goes wrong before that, all of it is rolled back. If the task has not used
its connection, there is nothing to commit, and its run is recorded together with others.

If the line breaks while it commits, nobody here knows what became of it. `Run.committed` is None
then, and the worker asks the store: it reports the failure, which counts only if the run is still
claimed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tenure.backends.base import Lender
from tenure.backends.shared.lending import not_in_time
from tenure.errors import ConfigError, Fenced, InvalidSchedule
from tenure.model import Result, RunState
from tenure.process.clock import SystemClock
from tenure.tasks.functions import place
from tenure.tasks.outcomes import NotBegun, as_error
from tenure.tasks.results import Kept
from tenure.tasks.run import Claims, Run
from tenure.tasks.task import CONNECTION, Task
from tenure.tasks.time_limit import too_long

Keep = Callable[[Task, object], Kept | None]
_real = SystemClock()


class Transactional:
    """Calls transactional tasks with connections of this lender."""

    def __init__(self, lender: Lender, keep: Keep) -> None:
        self._lender = lender
        self._keep = keep

    def __call__(
        self, task: Task, run: Run, timeout: float | None, call: Callable[..., Any]
    ) -> Any:
        """What the task returns, or a coroutine of it. `call` takes the connection."""
        refusal = self._lender.refusal(coroutine=task.is_async)
        if refusal is not None:
            raise ConfigError(f"task {task.name!r} is transactional, and {refusal}")
        run.claims = CompletedByItself(run.claims)
        how = self._awaited if task.is_async else self._blocking
        return how(task, run, timeout, call)

    def _blocking(
        self, task: Task, run: Run, timeout: float | None, call: Callable[..., Any]
    ) -> Any:
        begun = _real.monotonic()
        with self._lender.lend(timeout) as lent:
            waited = _real.monotonic() - begun
            run.waited += waited
            if timeout is not None and waited > timeout:
                raise not_in_time(timeout)
            if run.cancelled:
                raise NotBegun
            returned = call(**{CONNECTION: lent.connection})
            if inspect.isawaitable(returned):
                if inspect.iscoroutine(returned):
                    returned.close()
                raise ConfigError(
                    f"task {task.name!r} is transactional, and its plain function returned"
                    " something to await, after its transaction. Declare it with `async def`."
                )
            _check_time(begun, timeout)
            if lent.used:
                result = succeeded(run, self._keep(task, returned))
                run.committed = None
                _settle(run, lent.commit(result))
        return returned

    async def _awaited(
        self, task: Task, run: Run, timeout: float | None, call: Callable[..., Any]
    ) -> Any:
        begun = _real.monotonic()
        async with self._lender.lend_async(timeout) as lent:
            run.waited = _real.monotonic() - begun
            if run.cancelled:
                raise NotBegun
            returned = call(**{CONNECTION: lent.connection})
            if inspect.isawaitable(returned):
                returned = await returned
            _check_time(begun, timeout)
            result = succeeded(run, self._keep(task, returned))
            run.committed = None
            _settle(run, await lent.commit(result))
        return returned


class CompletedByItself:
    """The claim of a run that its own transaction completes."""

    def __init__(self, claims: Claims | None) -> None:
        self._claims = claims

    def confirm(self, run: Run, connection: object) -> Any:
        if self._claims is None:
            raise ConfigError("this Run was made by hand: no store knows its claim.")
        return self._claims.confirm(run, connection)

    def complete(self, run: Run, connection: object) -> Any:
        del connection
        raise ConfigError(
            f"task {run.task!r} is transactional: its run is completed with its transaction when"
            " it returns. Leave run.complete() out, or transactional=True."
        )


def succeeded(run: Run, kept: Kept | None) -> Result:
    """What is recorded with the effects, with what the task returned."""
    value = None if kept is None else kept.text
    reason = None if kept is None or kept.reason is None else as_error(kept.reason)
    told = None if run.told is None else run.told.report()
    return Result(
        *(run.id, run.claim, run.node, RunState.SUCCEEDED, reason),
        value=value,
        events=tuple(run.emitted),
        report=told,
    )


def _check_time(begun: float, timeout: float | None) -> None:
    """Before it commits: after that it has succeeded."""
    if timeout is not None and _real.monotonic() - begun > timeout:
        raise too_long(timeout)


def _settle(run: Run, recorded: bool) -> None:
    run.committed = recorded
    if not recorded:
        raise lost(run)


def lost(run: Run) -> Fenced:
    return Fenced(
        f"run {run.id}, attempt {run.attempt}, is no longer claimed by this attempt: this node was"
        " believed dead, and the run was given to another. Its transaction was rolled back."
    )


def check_connection(name: str, function: Callable[..., Any]) -> None:
    """Refuse a transactional task that cannot be given its connection."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            return
        if parameter.name == CONNECTION and parameter.kind in by_name:
            return
    raise InvalidSchedule(
        f"task {name!r} is transactional, but {place(function)} has no parameter {CONNECTION!r} to"
        f" be filled with its connection. Write def {name}({CONNECTION}), and write to the"
        " database through that."
    )
