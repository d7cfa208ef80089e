"""A run's own claim, inside a transaction of the user's: `run.fence` and `run.complete`.

Called by tasks, on whatever thread or loop they run, also after the scheduler has stopped: all that
is needed is the user's connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from tenure.backends.base import Backend, Joined, Joins
from tenure.errors import Fenced
from tenure.model import PENDING, Result, RunState
from tenure.scheduler import transaction
from tenure.tasks.run import Run

Work = Callable[[Joined], Coroutine[Any, Any, None]]


class TransactionClaims:
    """Joins the transactions of tasks."""

    def __init__(self, backend: Backend | Joins) -> None:
        self._backend = backend

    async def ready(self) -> None:
        """Learn, on Tenure's loop, what the transactions of users are compared with."""
        if isinstance(self._backend, Joins):
            await self._backend.identify()

    def confirm(self, run: Run, connection: object) -> Awaitable[None] | None:
        async def work(joined: Joined) -> None:
            if not await joined.confirm(run.id, run.claim, run.node):
                raise _lost(run)

        return self._inside(connection, work)

    def complete(self, run: Run, connection: object) -> Awaitable[None] | None:
        async def work(joined: Joined) -> None:
            told = None if run.told is None else run.told.report()
            events = tuple(run.emitted)
            result = Result(
                *(run.id, run.claim, run.node, RunState.SUCCEEDED),
                value=PENDING,
                report=told,
                events=events,
            )
            batch = await joined.runs.claim(run.node, (), 0, [result])
            if batch.kept != [True]:
                raise _lost(run)

        return self._inside(connection, work)

    def _inside(self, connection: object, work: Work) -> Awaitable[None] | None:
        backend = transaction.joinable(self._backend)
        if transaction.is_async(connection):
            return transaction.there(backend, connection, work)
        return transaction.here(backend, connection, work)


def _lost(run: Run) -> Fenced:
    return Fenced(
        f"run {run.id}, attempt {run.attempt}, is no longer claimed by this attempt: it has ended,"
        " or this node was believed dead and the run was given to another. Roll back: what you"
        " write here would be done twice."
    )
