"""The Redis backend: leases and their wake-ups. Schedules and runs live in a SQL store."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tenure.backends.redis import target
from tenure.backends.redis.client import close
from tenure.backends.redis.diagnose import diagnose
from tenure.backends.redis.leases import RedisLeases
from tenure.backends.redis.wakeups import RedisWakeups
from tenure.clock import Clock, SystemClock
from tenure.errors import StoreUnavailable
from tenure.model import Finding, Pending


class RedisBackend:
    """Leases in a Redis or Valkey server, by URL or with the settings of a client handed in.

    The client itself belongs to the application's thread or loop: it is not used from ours.
    """

    def __init__(
        self,
        url: str = "",
        *,
        client: Any = None,
        namespace: str = "default",
        clock: Clock | None = None,
    ) -> None:
        self._target = target.parse(url) if client is None else target.of(client)
        self._client = self._target.connect()
        self._namespace = namespace
        self._clock = clock = clock or SystemClock()
        self.wakeups = RedisWakeups(self._target, self._client, namespace, clock)
        self.leases = RedisLeases(self._target, self._client, self.wakeups, namespace, clock)

    @property
    def location(self) -> str:
        """The URL without its password."""
        return self._target.location

    async def now(self) -> datetime:
        """The server's clock: the one that judges these leases."""
        return await self.leases.now()

    async def pending(self) -> Pending:
        """Nothing, ever: keys need no tables."""
        return Pending((), "")

    async def diagnose(self) -> list[Finding]:
        return await diagnose(self._target, self._namespace, self._clock)

    async def open(self, *, migrate: bool = True) -> None:
        try:
            await self.wakeups.open()
        except StoreUnavailable as error:
            await self.close()
            raise StoreUnavailable(f"{str(error).rstrip('.')}. {self._target.advice}") from error
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        await self.wakeups.close()
        await self.leases.close()
        await close(self._client)
