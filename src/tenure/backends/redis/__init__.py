"""The Redis backend: leases and their wake-ups. Schedules and runs live in a SQL store."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tenure.backends.address import NOWHERE
from tenure.backends.redis import rights, target
from tenure.backends.redis.client import bounded, close
from tenure.backends.redis.damage import scanned
from tenure.backends.redis.diagnose import diagnose
from tenure.backends.redis.keys import Keys
from tenure.backends.redis.leases import RedisLeases
from tenure.backends.redis.wakeups import RedisWakeups
from tenure.backends.redis_client import PREFIX
from tenure.backends.shared.single_use import Once
from tenure.errors import StoreError, StoreUnavailable
from tenure.model import Finding, Pending, RoleScript, Severity
from tenure.process.clock import Clock, SystemClock


class RedisBackend:
    """Leases in a Redis or Valkey server, by URL or with the settings of a client.

    The client itself belongs to the application's thread or loop, so it is not used.
    """

    def __init__(
        self,
        url: str = "",
        *,
        client: Any = None,
        prefix: str = PREFIX,
        namespace: str = "default",
        clock: Clock | None = None,
    ) -> None:
        self._target = target.parse(url) if client is None else target.of(client, prefix)
        self._client = self._target.connect()
        self._namespace = namespace
        self._keys = Keys(namespace, self._target.prefix)
        self._once = Once()
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

    async def namespaces(self) -> list[str]:
        """Those in which a lease was ever granted. Only this one if it is among them, since finding
        others means scanning all keys. None if this user may not scan, or in a cluster, where each
        may be on another server."""
        if await bounded(self._client.exists(self._keys.server)):
            return [self._namespace]
        if self._target.kind == "cluster":
            return []
        begin, end = f"{self._target.prefix}:{{", "}:server"
        found = await scanned(self._client, f"{begin}*{end}")
        return sorted(key.removeprefix(begin).removesuffix(end) for key in found)[:100]

    async def pending(self) -> Pending:
        """Always empty: Redis has no tables."""
        return Pending((), "")

    async def diagnose(self) -> list[Finding]:
        return await diagnose(self._target, self._namespace, self._clock)

    def role_script(self, prefix: str) -> RoleScript:
        cluster, database = self._target.kind == "cluster", self._target.options.get("db")
        return rights.role_script(self._keys, prefix, cluster, database)

    async def check_rights(self) -> None:
        user = str(self._target.options.get("username") or "default")
        found = await rights.check(self._client, self._keys.prefix, user)
        if found is not None and found.severity is Severity.PROBLEM:
            raise StoreError(
                f"a node cannot keep its leases here: {found.text}. As an administrator:"
                f" {found.remedy}; or grant all that a node needs, as"
                f" `{NOWHERE.command('migrate', '--roles')}` prints for this Redis."
            )

    async def open(self, *, migrate: bool = True) -> None:
        self._once.begin(self.location)
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
