"""One active instance of something, guarded by the application's own database."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager
from typing import Literal, Self

from tenure.errors import ConfigError, LeaseHeld, mark
from tenure.leases.hold import Hold
from tenure.leases.lease import Lease
from tenure.leases.leases import Leases
from tenure.model import LeaseRecord
from tenure.node.stages import Stages, own_stage
from tenure.process.worker_count import STAGE, check_workers
from tenure.settings import named_arguments

OnHeld = Literal["raise", "skip", "wait"]
_EARLIER = {"fail": "raise", "skip": "skip", "standby": "wait"}


class SingleInstance:
    """`with single_instance(…) as guard`, or `async with`."""

    def __init__(self, leases: Leases, hold: Hold[Lease], *, skips: bool) -> None:
        self._leases = leases
        self._hold = hold
        self._skips = skips
        self.lease: Lease | None = None
        self.holder: LeaseRecord | None = None
        """Who holds it instead, with on_held="skip"."""

    @property
    def held(self) -> bool:
        """Whether this is the active instance, at this instant."""
        return self.lease is not None and self.lease.held

    def __enter__(self) -> Self:
        try:
            self.lease = self._hold.__enter__()
        except LeaseHeld as held:
            if not self._skipped(held):
                self._leases.close()
                raise
        except BaseException:
            self._leases.close()
            raise
        return self

    def __exit__(self, exc_type: type[BaseException] | None, *exc: object) -> None:
        try:
            if self.lease is not None:
                self._hold.__exit__(exc_type)
        finally:
            self._leases.close()

    async def __aenter__(self) -> Self:
        try:
            self.lease = await self._hold.__aenter__()
        except LeaseHeld as held:
            if not self._skipped(held):
                await self._leases.aclose()
                raise
        except BaseException:
            await self._leases.aclose()
            raise
        return self

    async def __aexit__(self, exc_type: type[BaseException] | None, *exc: object) -> None:
        try:
            if self.lease is not None:
                await self._hold.__aexit__(exc_type)
        finally:
            await self._leases.aclose()

    def stage(self, name: str) -> AbstractContextManager[None]:
        """A stage of your own start, inside the block; as `Scheduler.stage`."""
        return Stages(self._leases._runtime.facts).stage(own_stage(name))

    def _skipped(self, held: LeaseHeld) -> bool:
        if self._skips:
            self.holder = held.record
        else:
            mark(held, "campaign")  # not told as an error: it is what a guard is for
        return self._skips


@named_arguments
def single_instance(
    url: str | object | None = None,
    name: str = "scheduler",
    on_held: OnHeld | None = None,
    *,
    ttl: float = 15.0,
    heartbeat: float | None = None,
    max_time: float | None = None,
    namespace: str = "default",
    workers_env: str | None = None,
    when_held: str | None = None,
) -> SingleInstance:
    """Let one process at a time into a block, whatever starts the processes.

    Args:
        url: the store of the guard; or an SQLAlchemy engine, a psycopg pool, a Redis client.
        on_held: "raise", the default, raises `LeaseHeld`, which says who holds it and what to do;
            "skip" continues with `guard.held` False; "wait" waits, and takes over.
        heartbeat, max_time: as for `Leases.hold`.
        workers_env: a variable, such as "WEB_CONCURRENCY", that must not ask for more than one
            worker: see `check_workers`.
        when_held: the earlier name of `on_held`, with "fail" for "raise" and "standby" for "wait".
    """
    chosen = _chosen(on_held, when_held)
    leases = Leases(url, namespace=namespace)
    if workers_env is not None:
        try:
            check_workers(workers_env)
        except ConfigError as error:
            Stages(leases._runtime.facts).failed(STAGE, error)
            leases.close()
            raise
    wait = None if chosen == "wait" else 0.0
    hold = leases.hold(name, ttl, wait, heartbeat=heartbeat, max_time=max_time)
    return SingleInstance(leases, hold, skips=chosen == "skip")


def _chosen(on_held: str | None, when_held: str | None) -> str:
    if when_held is not None:
        if on_held is not None:
            raise ConfigError("on_held and when_held are the same choice: give only on_held.")
        on_held = _EARLIER.get(when_held, when_held)
        warnings.warn(
            f"when_held={when_held!r} is now on_held={on_held!r}", DeprecationWarning, stacklevel=4
        )
    on_held = "raise" if on_held is None else on_held
    if on_held not in _EARLIER.values():
        raise ConfigError(
            f"on_held={on_held!r} is not known; choose 'raise' (raise LeaseHeld), 'skip'"
            " (continue without it, guard.held is False) or 'wait' (wait and take over)."
        )
    return on_held
