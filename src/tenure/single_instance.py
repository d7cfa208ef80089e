"""One active instance of something, guarded by the application's own database."""

from __future__ import annotations

from typing import Self

from tenure.errors import ConfigError, LeaseHeld
from tenure.guards import Hold, WhenHeld
from tenure.lease import Lease
from tenure.locks import Leases
from tenure.model import LeaseRecord
from tenure.workers import check_workers


class SingleInstance:
    """`with single_instance(…) as guard`, or `async with`."""

    def __init__(self, leases: Leases, name: str, when_held: WhenHeld, ttl: float) -> None:
        if when_held not in ("fail", "skip", "standby"):
            raise ConfigError(
                f"when_held={when_held!r} is not known; choose 'fail' (raise LeaseHeld), 'skip'"
                " (go on without, guard.held is False) or 'standby' (wait and take over)."
            )
        self._leases = leases
        self._skips = when_held == "skip"
        wait = None if when_held == "standby" else 0.0
        self._hold: Hold = leases.hold(name, ttl, wait)
        self.lease: Lease | None = None
        self.holder: LeaseRecord | None = None
        """Who holds it instead, with when_held="skip"."""

    @property
    def held(self) -> bool:
        """Is this the active instance, at this instant?"""
        return self.lease is not None and self.lease.held

    def __enter__(self) -> Self:
        try:
            self.lease = self._hold.__enter__()
        except LeaseHeld as held:
            self._refused(held)
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
            self._refused(held)
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

    def _refused(self, held: LeaseHeld) -> None:
        if not self._skips:
            self._leases.close()
            raise held
        self.holder = held.record


def single_instance(
    url: str | object | None = None,
    name: str = "scheduler",
    when_held: WhenHeld = "fail",
    *,
    ttl: float = 15.0,
    namespace: str = "default",
    workers_env: str | None = None,
) -> SingleInstance:
    """Let one process at a time into a block, whatever starts the processes.

    Args:
        url: where the guard is; or an SQLAlchemy engine, a pool of psycopg, a Redis client.
        when_held: "fail" raises `LeaseHeld`, which says who holds it and what to do; "skip" goes
            on with `guard.held` False; "standby" waits, and takes over.
        workers_env: a variable, such as "WEB_CONCURRENCY", that must not ask for more than one
            worker: see `check_workers`.
    """
    if workers_env is not None:
        check_workers(workers_env)
    return SingleInstance(Leases(url, namespace=namespace), name, when_held, ttl)
