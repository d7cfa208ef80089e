"""For FastAPI and Starlette: several lifespans as one, and an endpoint for readiness probes.

    app = FastAPI(lifespan=lifespan(open_database, scheduler))
    app.add_route("/ready", readiness(scheduler))

One lifespan alone needs none of this: `FastAPI(lifespan=scheduler.lifespan)`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse

from tenure.scheduler.async_scheduler import AsyncScheduler
from tenure.scheduler.runtime import enabled
from tenure.scheduler.scheduler import Scheduler

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]


class HasLifespan(Protocol):
    """An `AsyncScheduler`, or a guard of `tenure.contrib.apscheduler`."""

    @property
    def lifespan(self) -> Lifespan: ...


def lifespan(*parts: HasLifespan | Lifespan) -> Callable[[Any], Any]:
    """Several lifespans as one: entered in this order, left in the opposite one.

    What the tasks use comes before the scheduler, so that it is still there when they end. What
    the parts yield, if they do, becomes the application's state.
    """

    @asynccontextmanager
    async def combined(app: Any) -> AsyncIterator[Mapping[str, Any]]:
        state: dict[str, Any] = {}
        async with AsyncExitStack() as stack:
            for part in parts:
                begin: Any = getattr(part, "lifespan", part)
                state.update(await stack.enter_async_context(begin(app)) or {})
            yield state

    return combined


def readiness(
    scheduler: Scheduler | AsyncScheduler,
) -> Callable[[Request], Awaitable[JSONResponse]]:
    """An endpoint: 200 while the scheduler runs, 503 before and after.

    A standby is ready. If it were not, a rolling deployment would wait for the new process to
    lead, which waits for the old one to end, which waits for the new one to be ready.
    """

    async def ready(request: Request) -> JSONResponse:
        there = scheduler.running or not enabled()
        told = {"ready": there, "leads": scheduler.is_leader, "node": scheduler.node}
        return JSONResponse(told, status_code=200 if there else 503)

    return ready
