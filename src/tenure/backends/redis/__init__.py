"""The Redis backend: leases and their wake-ups. Schedules and runs live in a SQL store."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from tenure.backends.redis.client import close, connect, like
from tenure.backends.redis.leases import RedisLeases
from tenure.backends.redis.wakeups import RedisWakeups
from tenure.clock import Clock, SystemClock


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
        self._url = url
        self._client = connect(url) if client is None else like(client)
        clock = clock or SystemClock()
        self.wakeups = RedisWakeups(self._client, namespace, clock)
        self.leases = RedisLeases(self._client, self.wakeups, namespace, clock)

    @property
    def location(self) -> str:
        """The URL without its password."""
        if not self._url:
            return "redis (a client that was handed in)"
        parts = urlsplit(self._url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    async def open(self, *, migrate: bool = True) -> None:
        try:
            await self.wakeups.open()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        await self.wakeups.close()
        await close(self._client)
