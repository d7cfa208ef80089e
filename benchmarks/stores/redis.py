"""Redis: leases only, in a Valkey server of our own; the schedules are in a SQLite file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

import redis

from benchmarks.stores.base import Place, Store
from benchmarks.stores.sqlite import write_lock
from tests.support.servers import ValkeyServer

_LEASES_ONLY = "Redis holds leases only"


class Redis(Store):
    """Every place is a server of its own, with its default settings: it forgets when it ends."""

    name = "redis"
    yardstick = "redis-py's Lock"
    lock_ttl = 5.0  # for so long a server that has just begun grants none
    hint = "its connection to the server is gone"
    apart = True
    skips: Mapping[str, str] = dict.fromkeys(
        (
            *("lateness", "idle", "firing", "many", "weekend", "adding"),
            *("crowd", "backlog", "steady", "executed", "cost", "transactional", "memory"),
            *("events", "observe", "pages", "beat", "beside"),
        ),
        _LEASES_ONLY,
    ) | {"startup": "it is the same with every store"}

    def facts(self) -> dict[str, str]:
        with self.place() as place, redis.Redis(port=place.port or 0) as client:
            server = client.info("server")
        kind = "Valkey" if "valkey_version" in server else "Redis"
        version = server.get("valkey_version", server["redis_version"])
        return {kind: f"{version}, no persistence", "redis-py": redis.__version__}

    @contextmanager
    def place(self) -> Iterator[Place]:
        server = ValkeyServer()
        try:
            server.start()
            with tempfile.TemporaryDirectory(prefix="tenure-bench-", dir=self.directory) as folder:
                yield Place(f"sqlite:///{folder}/bench.db", server.url, server.port)
        finally:
            server.close()

    @contextmanager
    def bare_pairs(self, place: Place) -> Iterator[Callable[[], None]]:
        with redis.Redis.from_url(place.locks) as client:
            lock = client.lock("bench", timeout=30)

            def pair() -> None:
                assert lock.acquire(blocking=False)
                lock.release()

            yield pair

    def no_write(self, place: Place) -> AbstractContextManager[None]:
        return write_lock(place.url)
