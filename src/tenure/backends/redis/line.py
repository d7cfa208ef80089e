"""Scripts on a blocking client, on the thread of whoever asks.

For plain calls that block anyway: they need no way to Tenure's own thread and back. redis-py's
pool gives each thread a connection, and makes one anew that was ended while nobody used it. A
cluster has no such line: its client would connect to every node.
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
from tenure.backends.redis.target import TIMES, Target


class Line:
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
        """A call that is under way is not cut off."""
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
    """The clients by which this one asks where its master is."""
    manager = getattr(client.connection_pool, "sentinel_manager", None)
    return () if manager is None else manager.sentinels


def _client(target: Target) -> Any:
    """As `Target.connect` makes it, but blocking. Connects when it is first used."""
    # Once more if the connection broke, not if nobody answered: that has taken long enough.
    again = Retry(NoBackoff(), 1, supported_errors=(exceptions.ConnectionError,))
    options: dict[str, Any] = {**TIMES, **target.options, "decode_responses": True, "retry": again}
    if target.kind == "sentinel":
        asking = {**TIMES, "retry": again, **target.sentinel_options}
        sentinel: Any = Sentinel(target.hosts, sentinel_kwargs=asking)  # type: ignore[no-untyped-call]
        return sentinel.master_for(target.service, **options)
    if target.hosts:
        options["host"], options["port"] = target.hosts[0]
    return redis.Redis(**options)
