"""An APScheduler 3 scheduler that runs only while this process leads.

Its jobs stay as they are. It is started when this process comes to lead, paused as soon as that is
no longer certain, and resumed when it is. Besides, each time it looks for due jobs it is asked
whether this process leads *at this instant*: a process that was frozen past its lease wakes up
with timers that are due, and nobody has told it anything yet.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.schedulers.base import STATE_PAUSED, STATE_STOPPED
from apscheduler.schedulers.blocking import BlockingScheduler

from tenure.contrib.apscheduler.jobs import own_scheduler
from tenure.errors import ConfigError
from tenure.leases.keeping import Keeping
from tenure.leases.lease import Lease
from tenure.leases.leases import Leases
from tenure.process.clock import SystemClock
from tenure.scheduler.runtime import enabled

ASK_AGAIN = 0.5


def guard(
    scheduler: Any,
    leases: Leases | str | None = None,
    *,
    name: str = "apscheduler",
    ttl: float = 15.0,
    heartbeat: float | None = None,
    namespace: str = "default",
    on_lead: Callable[[], Any] | None = None,
    on_stop: Callable[[], Any] | None = None,
) -> Guard:
    """Let an APScheduler run in one process at a time. Do not start it yourself.

    Args:
        scheduler: an `AsyncIOScheduler` or a `BackgroundScheduler`, with its jobs; or what has one,
            such as Flask-APScheduler's.
        leases: the store's URL, as for `Leases`, or a `Leases` that you have.
        name: of the lease. Schedulers with different jobs need different names.
        ttl: how long others wait for a process that is frozen or cut off.
        heartbeat: how often the lease is renewed; at most ttl/3, ttl/5 unless given.
        on_lead: called when this process leads, after the jobs are running; a coroutine function is
            awaited on the loop of `async with`.
        on_stop: called when it no longer does, after the jobs are paused or shut down.
    """
    scheduler = own_scheduler(scheduler)
    own = None if isinstance(leases, Leases) else Leases(leases, namespace=namespace)
    chosen = leases if isinstance(leases, Leases) else own
    made = Guard(scheduler, chosen, own, name, Keeping(ttl, heartbeat))
    made.on_lead, made.on_stop = on_lead, on_stop
    return made


class Guard:
    """`with guard(…)`, `async with guard(…)`, or `lifespan=guard(…).lifespan`."""

    def __init__(
        self,
        scheduler: Any,
        leases: Leases | None,
        own: Leases | None,
        name: str,
        keeping: Keeping,
    ) -> None:
        if isinstance(scheduler, BlockingScheduler) and not isinstance(
            scheduler, BackgroundScheduler
        ):
            raise ConfigError(
                "a BlockingScheduler blocks its thread, so the guard cannot pause it."
                " Use a BackgroundScheduler, and wait in your own code."
            )
        assert leases is not None
        self.on_lead: Callable[[], Any] | None = None
        self.on_stop: Callable[[], Any] | None = None
        self._leads = threading.Event()
        self._scheduler = scheduler
        self._own = own
        self._term: int | None = None
        self._over = True
        self._changing = threading.Lock()
        self._looking = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leadership = leases.leading(
            name, keeping.ttl, self._gained, self._not_sure, heartbeat=keeping.heartbeat
        )
        # From here on it never runs unguarded, whatever starts it.
        self._process_jobs = scheduler._process_jobs
        scheduler._process_jobs = self._process_jobs_if_leading

    @property
    def is_leader(self) -> bool:
        """Does this process run the jobs, at this instant?"""
        return self._leadership.is_leader

    @property
    def lease(self) -> Lease | None:
        """For long jobs: `lease.check()` between steps, `lease.fence()` in a transaction."""
        return self._leadership.lease

    def wait_until_leading(self, timeout: float | None = None) -> bool:
        """Wait until this process runs the jobs, at most `timeout` seconds; whether it does.

        In a coroutine: `await asyncio.to_thread(only_one.wait_until_leading, 30)`.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._leads.wait(timeout)
        raise ConfigError(
            "wait_until_leading() would block the event loop, which may have to start the jobs"
            " first: write `await asyncio.to_thread(only_one.wait_until_leading, 30)`."
        )

    def start(self) -> Self:
        """Campaign; returns at once. The scheduler starts when this process leads."""
        if isinstance(self._scheduler, AsyncIOScheduler):
            raise ConfigError(
                "an AsyncIOScheduler needs an event loop: use `async with guard(…)`, or"
                " `lifespan=guard(…).lifespan`."
            )
        for callback in (self.on_lead, self.on_stop):
            if inspect.iscoroutinefunction(callback):
                raise ConfigError(
                    "a coroutine as on_lead or on_stop needs an event loop: use `async with"
                    " guard(…)`, or a plain function."
                )
        if enabled():
            self._prepare()
            self._leadership.start()
        return self

    def stop(self, wait: bool = True) -> None:
        """Run no more jobs, let those that run end (`wait`), then let another process lead."""
        if self._shut_down(wait):
            self._leadership.stop()
        if self._own is not None:
            self._own.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        if enabled():
            self._loop = asyncio.get_running_loop()
            self._prepare()
            await self._leadership.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        loop = asyncio.get_running_loop()
        # A BackgroundScheduler waits for its jobs, and that must not stop the loop.
        shut_down = self._shut_down
        if isinstance(self._scheduler, AsyncIOScheduler):
            led = shut_down(True)
            done = asyncio.Event()
            loop.call_soon(done.set)  # its own shutdown waits for its turn on the loop, too
            await done.wait()
        else:
            led = await loop.run_in_executor(None, shut_down, True)
        if led:
            await self._leadership.__aexit__()
        if self._own is not None:
            await loop.run_in_executor(None, self._own.close)

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:
        """For FastAPI and Starlette: `FastAPI(lifespan=guard(jobs).lifespan)`."""
        async with self:
            yield

    # -- within -----------------------------------------------------------------------------------

    def _prepare(self) -> None:
        self._over, self._term = False, None
        if self._scheduler.running:
            self._scheduler.pause()

    def _shut_down(self, wait: bool) -> bool:
        """Stop the scheduler; False if there was nothing to stop."""
        with self._changing:
            was_over, self._over = self._over, True
        if not was_over and self._scheduler.running:
            with self._looking:
                pass  # a look under way would not survive the shutdown; there is no other
            self._scheduler.shutdown(wait)
        return not was_over

    def _gained(self, lease: Lease) -> None:
        """On the leadership's thread: this process leads from now on, or again."""
        if self._loop is not None and isinstance(self._scheduler, AsyncIOScheduler):
            runs = asyncio.run_coroutine_threadsafe(self._run_soon(lease.term), self._loop).result()
        else:
            runs = self._run(lease.term)
        if runs:
            self._leads.set()
            self._tell(self.on_lead)

    async def _run_soon(self, term: int) -> bool:
        return self._run(term)

    def _run(self, term: int) -> bool:
        """Start or resume the scheduler; False if it is too late for that."""
        with self._changing:
            if self._over:
                return False
            if self._scheduler.state == STATE_STOPPED:
                self._scheduler.start()
            else:
                if term != self._term:
                    self._leave_out_the_past()
                self._scheduler.resume()
            self._term = term
            return True

    def _not_sure(self) -> None:
        """Pausing sets a flag and no more, so it need not wait for a loop that may be blocked."""
        with self._changing:
            if not self._over and self._scheduler.running:
                self._scheduler.pause()
        if self._leads.is_set():
            self._leads.clear()
            self._tell(self.on_stop)

    def _tell(self, callback: Callable[[], Any] | None) -> None:
        """On the leadership's thread, which logs what it raises."""
        result = None if callback is None else callback()
        if inspect.isawaitable(result):
            assert self._loop is not None
            asyncio.run_coroutine_threadsafe(_awaited(result), self._loop).result()

    def _process_jobs_if_leading(self) -> float | None:
        with self._looking:
            if self._over:
                return None
            if self.is_leader or self._scheduler.state == STATE_PAUSED:
                wait: float | None = self._process_jobs()
                return wait
        return ASK_AGAIN

    def _leave_out_the_past(self) -> None:
        """Another may have led meanwhile, and have run what came due.

        Jobs in memory know nothing of it: they go on with their next time. A job store that is
        shared does know, and is left as it is.
        """
        now = SystemClock().now()
        for job in self._scheduler.get_jobs():
            store = self._scheduler._lookup_jobstore(job._jobstore_alias)
            if job.next_run_time is None or not isinstance(store, MemoryJobStore):
                continue
            if job.next_run_time <= now:
                following = job.trigger.get_next_fire_time(None, now)
                if following is None or following <= now:
                    job.remove()
                else:
                    job.modify(next_run_time=following)


async def _awaited(result: Awaitable[Any]) -> None:
    await result
