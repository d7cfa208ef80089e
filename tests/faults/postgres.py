"""Real processes on a real PostgreSQL: what the tests of this store share."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

import psycopg
import pytest
from psycopg.rows import DictRow, dict_row

from tests.faults.accounting import account
from tests.faults.programs.holder import boot_clock
from tests.faults.support import LEADER, TTL, Cluster, Program, Store, task
from tests.faults.trust import trusted_twice
from tests.support.pgbouncer import PgBouncer, find_pgbouncer
from tests.support.servers import PostgresServer

TICK = task("tick", 0.25)
SLACK = 10.0
"""On top of a promised time: these tests run on busy machines."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """A server of one's own, which may be killed: of which its files know without fsync too."""
    server = PostgresServer(fsync="off")
    try:
        yield server.start()
    finally:
        server.close()


@contextmanager
def running_pooler(server: PostgresServer) -> Iterator[PgBouncer]:
    program = find_pgbouncer()
    if program is None:
        missing("pgbouncer is not installed: apt-get install pgbouncer")
    with PgBouncer(program, server.port) as pooler:
        yield pooler


@contextmanager
def running_cluster(server: PostgresServer, folder: Path) -> Iterator[PostgresCluster]:
    cluster = PostgresCluster(folder, server)
    try:
        yield cluster
    finally:
        cluster.end()
        print(cluster.logs())  # noqa: T201 - pytest shows it with a failure


class PostgresCluster(Cluster):
    """Processes that share a database of their own on this server."""

    def __init__(self, folder: Path, server: PostgresServer) -> None:
        super().__init__(folder)
        self.server = server
        self._holders: list[str] = []
        self._url = server.create_database()

    def freeze(self, program: Program) -> float:
        """Anywhere: a server ends what takes too long."""
        return program.freeze()

    @property
    def url(self) -> str:
        return self._url

    def through(self, port: int, user: str = "tenure") -> str:
        """The same database by another way."""
        return f"postgresql://{user}@127.0.0.1:{port}/{self.url.rpartition('/')[2]}"

    def a_node(self, who: str, **options: Any) -> Program:
        """A node that believes to be on a machine of its own, with the usual task."""
        given = {"ttl": TTL, "tasks": [TICK], "machine": who, **options}
        return self.start("postgres_node", who, **given)

    def holder(self, who: str, **options: Any) -> Program:
        """See programs/holder.py."""
        self._holders.append(who)
        return self.start("holder", who, **{"ttl": TTL, "machine": who, **options})

    def pair(self, **first: Any) -> tuple[Program, Program]:
        """Two nodes, the first of which leads, and two that want the same lock. All run."""
        leader = self.a_node("first", **first)
        self.holder("guard-1", **first)
        self.leader("first")
        self.journal.wait("entered", "guard-1")
        other = self.a_node("other")
        self.holder("guard-2")
        self.journal.fact("node.started", "other")
        self.journal.wait("asked", "guard-2")
        self.journal.wait("end", schedule="tick")
        return leader, other

    def kill(self, program: Program) -> float:
        """So that what it trusted ends with it."""
        boot = boot_clock()
        sent = program.kill()
        self.journal.write("killed", program.who, killed=program.pid, boot=boot)
        return sent

    def query(self, text: str, *values: object) -> list[DictRow]:
        with psycopg.connect(self.url, row_factory=dict_row, autocommit=True) as connection:
            cursor = connection.execute(text, values)
            return cursor.fetchall() if cursor.description else []

    def lease(self, name: str = LEADER) -> DictRow:
        return self.query("SELECT * FROM tenure.lease WHERE name = %s", name)[0]

    def history(self, name: str = LEADER) -> list[DictRow]:
        query = "SELECT * FROM tenure.lease_history WHERE name = %s ORDER BY term"
        return self.query(query, name)

    def finish(self) -> None:
        """Everybody stops, politely; and the whole history was right."""
        for who in self._holders:
            self.tell(who, "leave")
        self.stop_all(*(p.who for p in self.programs if p.who not in self._holders))
        for program in self.programs:
            program.wait()
        assert self.complaints() == []

    def complaints(self) -> list[str]:
        return account(self.journal, self.copy()) + list(trusted_twice(self.journal))

    def copy(self) -> Store:
        """What the checker reads, as SQLite has it."""
        copy = self.folder / "copy.db"
        copy.unlink(missing_ok=True)
        with psycopg.connect(self.url, row_factory=dict_row) as source:
            source.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            with closing(sqlite3.connect(copy)) as target:
                for table in ("schedule", "occurrence", "run"):
                    _copy(source.execute(f"SELECT * FROM tenure.{table}"), target, table)
                target.commit()
        return Store(copy)


def _copy(rows: psycopg.Cursor[DictRow], target: sqlite3.Connection, table: str) -> None:
    """As SQLite has it: times are microseconds since 1970."""
    names = [column.name for column in rows.description or ()]
    target.execute(f"CREATE TABLE tenure_{table} ({', '.join(names)})")
    marks = ", ".join("?" * len(names))
    values = [[_plain(value) for value in row.values()] for row in rows]
    target.executemany(f"INSERT INTO tenure_{table} VALUES ({marks})", values)


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return (value - _EPOCH) // timedelta(microseconds=1)
    return value


def missing(reason: str) -> NoReturn:
    """Skip, visibly; on a build server, fail: there it must not be missing."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
