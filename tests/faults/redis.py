"""Real processes with their leases in a real Valkey, and everything else in one SQLite file.

Each process has a line of its own to the server, through a proxy, and believes to be on a machine
of its own: nothing about another's death can be proven from its pid.

A cluster is made once for many tests, because starting processes is what takes time. Every test
ends with `settle`, which checks the whole history up to then; one that did not come that far
leaves its cluster behind, and the next test gets a new one.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from tenure.backends.base import OWN
from tests.faults.programs.holder import boot_clock
from tests.faults.support import LEADER, TTL, Cluster, Entry, Program, task, until
from tests.faults.trust import trusted_twice
from tests.support.proxy import Proxy
from tests.support.servers import ValkeyServer

TICK = task("tick", 0.25)
SLACK = 10.0
"""On top of a promised time: these tests run on busy machines."""
GUARD = "guard"
_databases = itertools.count()


@contextmanager
def running_server(**settings: str) -> Iterator[ValkeyServer]:
    """One whose clock can be moved. Killed, it loses no write: the kernel has them all."""
    usual = {"appendonly": "yes", "appendfsync": "no", "repl-diskless-sync-delay": "0"}
    server = ValkeyServer(clock=True, **{**usual, **settings})
    try:
        yield server.start()
    finally:
        server.close()


@contextmanager
def long_running_server() -> Iterator[ValkeyServer]:
    """One that has been up for an hour, as far as it knows: it is believed from the start."""
    with running_server() as server:
        server.age(3600)
        yield server


def uptime(server: ValkeyServer) -> int:
    return int(server.command("INFO", "server")["uptime_in_seconds"])


class RedisCluster(Cluster):
    """Processes with their leases in a database of their own on this server."""

    def __init__(self, folder: Path, server: ValkeyServer) -> None:
        super().__init__(folder)
        self.server = server
        self.database_number = next(_databases) % 16
        self.settled = True
        self._lines: dict[str, Proxy] = {}
        self._open = ExitStack()
        self._names = itertools.count(1)

    # -- processes --------------------------------------------------------------------------------

    def line(self, who: str) -> Proxy:
        """The way of this process to the server."""
        if who not in self._lines:
            self._lines[who] = self._open.enter_context(Proxy(self.server.port))
        return self._lines[who]

    def redis_url(self, who: str) -> str:
        return f"redis://127.0.0.1:{self.line(who).port}/{self.database_number}"

    def a_node(self, **options: Any) -> Program:
        who = f"node-{next(self._names)}"
        given = {"ttl": TTL, "tasks": [TICK], "machine": who, "leases": self.redis_url(who)}
        return self.start("redis_node", who, **{**given, **options})

    def a_guard(self, **options: Any) -> Program:
        """See programs/holder.py."""
        who = f"guard-{next(self._names)}"
        given = {"ttl": TTL, "machine": who, "url": self.redis_url(who)}
        return self.start("holder", who, **{**given, **options})

    def crowd(self) -> None:
        """As many as it takes: three nodes and two that want the same lock. All run."""
        nodes = [self.a_node() for _ in range(3 - len(self.living("node")))]
        guards = [self.a_guard() for _ in range(2 - len(self.living("guard")))]
        for node in nodes:
            self.journal.fact("node.started", node.who)
        for guard in guards:
            self.journal.wait("asked", guard.who)
        self.recover()

    def living(self, kind: str) -> list[Program]:
        return [p for p in self.programs if p.running and p.who.startswith(kind)]

    def program(self, who: str) -> Program:
        return next(p for p in self.programs if p.who == who)

    def kill(self, program: Program) -> float:
        """So that what it trusted ends with it."""
        boot = boot_clock()
        sent = program.kill()
        self.journal.write("killed", program.who, killed=program.pid, boot=boot)
        return sent

    def fail_over(self, server: ValkeyServer) -> None:
        """From now on this is the server, for everybody."""
        self.server = server
        for line in self._lines.values():
            line.lead_to(server.port)

    # -- what is so -------------------------------------------------------------------------------

    def in_office(self) -> Entry:
        return self.journal.facts("leader.took_office")[-1]

    def holding(self) -> Entry:
        """The guard that was the last to get in."""
        return self.journal.entries("entered")[-1]

    def another(self, program: Program) -> Program:
        kind = program.who.partition("-")[0]
        return next(p for p in self.living(kind) if p.who != program.who)

    def recover(self, after: float | None = None) -> None:
        """Wait until somebody leads, ticks are executed and the lock is held: all since then."""
        after = time.monotonic() if after is None else after
        until(self._led, "a leader that Redis knows of")
        self.journal.wait("end", after=after, schedule="tick")
        self.journal.wait("trusts", after=after)

    def _led(self) -> bool:
        taken = self.journal.facts("leader.took_office")
        return bool(taken) and self.lease().get("term") == str(taken[-1]["term"])

    def lease(self, name: str = LEADER, server: ValkeyServer | None = None) -> dict[str, str]:
        """As redis-cli shows it; empty if there is none. On another server than theirs, if that is
        given."""
        with self.ask(server) as line:
            found: dict[str, str] = line.hgetall(f"tenure:{{default}}:lease:{name}")  # type: ignore[assignment]
            return found

    def ended(self, name: str = LEADER) -> dict[str, Any]:
        """The newest line of the history."""
        history = "history" if name.startswith(OWN) else "history:locks"
        with self.ask() as line:
            lines: Any = line.lrange(f"tenure:{{default}}:{history}", 0, -1)
        return next(past for past in map(json.loads, lines) if past["name"] == name)

    @contextmanager
    def ask(self, server: ValkeyServer | None = None) -> Iterator[redis.Redis]:
        url = f"redis://127.0.0.1:{(server or self.server).port}/{self.database_number}"
        with redis.Redis.from_url(url, decode_responses=True) as line:
            yield line

    # -- the end ----------------------------------------------------------------------------------

    def settle(self) -> None:
        """The whole history was right, and everybody is as before."""
        self.crowd()
        assert self.complaints() == []
        self.settled = True

    def finish(self) -> None:
        """Everybody stops, politely; and the whole history was right."""
        for guard in self.living("guard"):
            self.tell(guard.who, "leave")
        self.stop_all(*(node.who for node in self.living("node")))
        for guard in self.living("guard"):
            assert guard.wait() == 0
        assert self.complaints() == []

    def complaints(self) -> list[str]:
        return super().complaints() + self.overlaps()

    def overlaps(self) -> list[str]:
        return list(trusted_twice(self.journal))

    def end(self) -> None:
        super().end()
        self._open.close()


class Clusters:
    """The cluster of a module: a new one only if the last test broke it."""

    def __init__(self, server: ValkeyServer, folders: pytest.TempPathFactory) -> None:
        self._server = server
        self._folders = folders
        self._cluster: RedisCluster | None = None

    @contextmanager
    def one(self) -> Iterator[RedisCluster]:
        if self._cluster is None:
            self._cluster = RedisCluster(self._folders.mktemp("cluster"), self._server)
            self._cluster.settled = False
        cluster = self._cluster
        try:
            if not cluster.settled:
                cluster.crowd()
            cluster.settled = False
            yield cluster
        finally:
            if not cluster.settled:
                self._cluster = None
                cluster.end()
                print(cluster.logs())  # noqa: T201 - pytest shows it with a failure

    def end(self) -> None:
        """Politely, if there is one."""
        if self._cluster is not None:
            with self.one() as cluster:
                cluster.finish()
