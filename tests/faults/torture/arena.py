"""The stores to torture: each with a cluster on it, and with what can be done to it."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path

from tests.faults.accounting import Audit, audit
from tests.faults.postgres import PostgresCluster
from tests.faults.postgres import running_server as running_postgres
from tests.faults.redis import long_running_server
from tests.faults.support import TTL, Cluster, Program, Store, task
from tests.support.proxy import Proxy
from tests.support.servers import PostgresServer, ValkeyServer

MANY = [
    task(f"t{i}", 1.0, catch_up=("latest", "all", "none")[i % 3], overlap=("skip", "queue")[i % 2])
    for i in range(200)
]
"""All policies, mixed."""
OVERDUE = (
    "SELECT id FROM tenure_run WHERE state IN ('waiting', 'claimed')"
    " AND coalesce(claimed_at, due) < ?"
)


class Arena:
    """A store and its cluster. The harms that are done to a leader are the same everywhere; a
    store adds its own: `strikes`, by name, after each of which somebody must fire again."""

    strikes: Mapping[str, Callable[[], None]] = {}
    can_be_cut = False

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def start(self, who: str) -> Program:
        return self.cluster.node(who, *MANY, ttl=TTL)

    def cut(self, who: str, *, off: bool) -> None:
        """Let the line of this node swallow everything, or work again."""
        raise NotImplementedError

    def no_write(self) -> AbstractContextManager[None]:
        """Meanwhile no node is inside a write to SQLite. Frozen there it would stop all others:
        that is documented, and not what is tried here."""
        return self.cluster.store.write_lock()

    def store(self) -> Store:
        return self.cluster.store

    def overdue(self, seconds: float) -> int:
        """How many runs have waited, or been under way, for longer than this."""
        return len(self.store().rows(OVERDUE, int((time.time() - seconds) * 1e6)))

    def audit(self) -> Audit:
        found = audit(self.cluster.journal, self.store())
        if not self.store().sound():
            found.complaints.append(("wrong", "the file is damaged: PRAGMA integrity_check"))
        return found


class _Postgres(Arena):
    """Everything in PostgreSQL, or the leases in Redis: then that is the line that is cut."""

    can_be_cut = True

    def __init__(self, cluster: PostgresCluster, server: PostgresServer, open_: ExitStack) -> None:
        super().__init__(cluster)
        self._postgres = cluster
        self._server = server
        self._open = open_
        self._lines: dict[str, Proxy] = {}
        self.strikes = {"restart": self._restart}

    def line(self, who: str, port: int) -> int:
        """Of a way of its own to this port: where it begins."""
        self._lines[who] = self._open.enter_context(Proxy(port))
        return self._lines[who].port

    def start(self, who: str) -> Program:
        url = self._postgres.through(self.line(who, self._server.port))
        return self._postgres.a_node(who, url=url, tasks=MANY)

    def cut(self, who: str, *, off: bool) -> None:
        self._lines[who].become("half-open" if off else "pass")

    def no_write(self) -> AbstractContextManager[None]:
        return nullcontext()

    def store(self) -> Store:
        return self._postgres.copy()

    def overdue(self, seconds: float) -> int:
        query = OVERDUE.replace("tenure_run", "tenure.run").replace("?", "now() - %s")
        return len(self._postgres.query(query, timedelta(seconds=seconds)))

    def _restart(self) -> None:
        self._server.stop(signal.SIGKILL)
        self._server.start()


class _RedisOverPostgres(_Postgres):
    def __init__(
        self,
        cluster: PostgresCluster,
        server: PostgresServer,
        redis: ValkeyServer,
        open_: ExitStack,
    ) -> None:
        super().__init__(cluster, server, open_)
        self._redis = redis
        self.strikes = {"restart database": self._restart, **redis_strikes(redis)}

    def start(self, who: str) -> Program:
        leases = f"redis://127.0.0.1:{self.line(who, self._redis.port)}/0"
        return self._postgres.a_node(who, leases=leases, tasks=MANY)


class _RedisOverSQLite(Arena):
    can_be_cut = True

    def __init__(self, cluster: Cluster, redis: ValkeyServer, open_: ExitStack) -> None:
        super().__init__(cluster)
        self._redis = redis
        self._open = open_
        self._lines: dict[str, Proxy] = {}
        self.strikes = redis_strikes(redis)

    def start(self, who: str) -> Program:
        self._lines[who] = self._open.enter_context(Proxy(self._redis.port))
        leases = f"redis://127.0.0.1:{self._lines[who].port}/0"
        return self.cluster.start(
            "redis_node", who, ttl=TTL, tasks=MANY, machine=who, leases=leases
        )

    def cut(self, who: str, *, off: bool) -> None:
        self._lines[who].become("half-open" if off else "pass")


def redis_strikes(server: ValkeyServer) -> dict[str, Callable[[], None]]:
    def restart() -> None:
        """With its data: each write is in its file."""
        server.stop(signal.SIGKILL)
        server.start()

    def restart_empty() -> None:
        server.stop(signal.SIGKILL)
        server.empty()
        server.start()

    def flush() -> None:
        server.command("FLUSHALL")

    return {"restart": restart, "restart empty": restart_empty, "flush": flush}


@contextmanager
def sqlite(folder: Path) -> Iterator[Arena]:
    with _ended(Cluster(folder)) as cluster:
        yield Arena(cluster)


@contextmanager
def postgres(folder: Path) -> Iterator[Arena]:
    with ExitStack() as open_:
        server = open_.enter_context(running_postgres())
        cluster = PostgresCluster(folder, server)
        open_.enter_context(_ended(cluster))
        yield _Postgres(cluster, server, open_)


@contextmanager
def redis(folder: Path) -> Iterator[Arena]:
    with ExitStack() as open_:
        server = open_.enter_context(long_running_server())
        cluster = open_.enter_context(_ended(Cluster(folder)))
        yield _RedisOverSQLite(cluster, server, open_)


@contextmanager
def redis_postgres(folder: Path) -> Iterator[Arena]:
    with ExitStack() as open_:
        redis = open_.enter_context(long_running_server())
        server = open_.enter_context(running_postgres())
        cluster = PostgresCluster(folder, server)
        open_.enter_context(_ended(cluster))
        yield _RedisOverPostgres(cluster, server, redis, open_)


@contextmanager
def _ended(cluster: Cluster) -> Iterator[Cluster]:
    try:
        yield cluster
    finally:
        cluster.end()


STORES = {
    "sqlite": sqlite,
    "postgres": postgres,
    "redis": redis,
    "redis-postgres": redis_postgres,
}
"""Each opens an arena in an empty folder, and stops all of its processes in the end. `redis` has
the leases in Redis and all else in SQLite."""
