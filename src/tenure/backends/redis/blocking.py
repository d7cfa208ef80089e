"""Scripts on a blocking client, on the caller's thread.

For calls that block anyway: this saves the detour over Tenure's own thread. redis-py's pool gives
each thread a connection, and replaces one that was closed while it was idle. It is not used for a
cluster, whose client would connect to every node.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import redis
from redis import exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

from tenure.backends.redis import deadline
from tenure.backends.redis.client import FAILURES, translate
from tenure.backends.redis.target import TEXTS, TIMES, Target


class BlockingClient:
    """The scripts of this process's threads."""

    def __init__(self, target: Target, scripts: Mapping[str, str]) -> None:
        self._target = target
        self._texts = scripts
        self._scripts: Mapping[str, Any] | None = None
        self._client: Any = None
        self._guard = threading.Lock()

    @property
    def exists(self) -> bool:
        return self._target.kind != "cluster"

    def run(self, name: str, keys: Sequence[str], request: str) -> Any:
        scripts = self._scripts or self._connect()
        deadline.begin()
        try:
            return scripts[name](keys=keys, args=(request,))
        except FAILURES as error:
            translate(error)

    def close(self) -> None:
        """Does not interrupt a call that is under way."""
        with self._guard:
            client, self._client, self._scripts = self._client, None, None
        if client is not None:
            client.connection_pool.disconnect(inuse_connections=False)
            for sentinel in _sentinels(client):
                sentinel.close()

    def _connect(self) -> Mapping[str, Any]:
        with self._guard:
            if self._scripts is None:
                self._client = _client(self._target)
                for each in (self._client, *_sentinels(self._client)):
                    deadline.limit(each.connection_pool)
                self._scripts = {
                    name: self._client.register_script(text) for name, text in self._texts.items()
                }
            return self._scripts


def _sentinels(client: Any) -> Sequence[Any]:
    """The clients that find this one's master."""
    manager = getattr(client.connection_pool, "sentinel_manager", None)
    return () if manager is None else manager.sentinels


def _client(target: Target) -> Any:
    """Like `Target.connect`, but blocking. Connects when it is first used."""
    # Repeat once if the connection broke, but not after a timeout: that has taken long enough.
    again = Retry(NoBackoff(), 1, supported_errors=(exceptions.ConnectionError,))
    options: dict[str, Any] = {**TIMES, **target.options, **TEXTS, "retry": again}
    if target.kind == "sentinel":
        asking = {**TIMES, "retry": again, **target.sentinel_options}
        sentinel: Any = Sentinel(target.hosts, sentinel_kwargs=asking)  # type: ignore[no-untyped-call]
        return sentinel.master_for(target.service, **options)
    if target.hosts:
        options["host"], options["port"] = target.hosts[0]
    return redis.Redis(**options)
