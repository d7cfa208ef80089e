"""A role that may only connect, and takes locks until the server has no room for more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenure import Scheduler, every
from tenure.facts import Fact
from tests.e2e.command import at_hand
from tests.faults.postgres import running_server
from tests.faults.support import until
from tests.support.roles import RoleStore
from tests.support.servers import PostgresServer

pytestmark = pytest.mark.faults
SCRIPT = re.compile(r"^    DO \$\$.*?END \$\$;$", re.DOTALL | re.MULTILINE)
PORTION = 1_000
ADVICE = "a session holds very many locks"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server() as server:
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute("CREATE ROLE mallory LOGIN")
        yield server


class Node:
    def __init__(self, url: str, *, migrate: bool = True) -> None:
        self.fired = 0
        self.errors: list[str] = []
        self.scheduler = Scheduler(url, ttl=2, migrate=migrate)
        self.facts: list[str] = []
        self.scheduler.on("*", self._hear)

        @self.scheduler.task(every(seconds=0.25), name="beat", overlap="allow")
        def beat() -> None:
            self.fired += 1

    def _hear(self, fact: Fact) -> None:
        self.facts.append(str(fact))
        if fact.name == "store.unavailable":
            self.errors.append(str(fact))

    def fires(self) -> None:
        count = self.fired
        until(lambda: self.fired > count + 2, "it fires")


def _take(mallory: psycopg.Connection[Any], portions: int) -> None:
    for first in range(0, portions * PORTION, PORTION):
        mallory.execute(
            "SELECT pg_advisory_lock(n) FROM generate_series(%s::bigint, %s::bigint) n",
            [first, first + PORTION - 1],
        )


def test_session_with_many_locks_is_named(server: PostgresServer, tmp_path: Path) -> None:
    url = server.create_database("many")
    Node(url).scheduler.stop()
    with psycopg.connect(url.replace("tenure@", "mallory@"), autocommit=True) as mallory:
        _take(mallory, 5)
        pid = mallory.info.backend_pid
        found = _doctor(url, tmp_path, "lock table")
        assert f"pid {pid} (role 'mallory'" in found[0]["text"]
        assert found[0]["severity"] == "problem"
        assert f"pg_terminate_backend({pid})" in found[0]["remedy"]
    until(lambda: not _doctor(url, tmp_path, "lock table"), "none is named any more")


def _doctor(url: str, folder: Path, check: str) -> list[Any]:
    answer = at_hand(folder, "doctor", "--json", "--url", url)
    return [found for found in answer.json["findings"] if found["check"] == check]


def test_full_lock_table_is_told_and_firing_goes_on_after_it(
    server: PostgresServer, tmp_path: Path
) -> None:
    url = server.create_database("locks")
    node = Node(url)
    with node.scheduler:
        node.fires()
        with psycopg.connect(url.replace("tenure@", "mallory@"), autocommit=True) as mallory:
            with pytest.raises(psycopg.errors.OutOfMemory):
                _take(mallory, 1_000)
            until(lambda: any(ADVICE in error for error in node.errors), "what is wrong")
            [found] = _doctor(url, tmp_path, "server")
            assert ADVICE in found["text"]
        node.fires()
    assert not any(fact.startswith("schedule.") for fact in node.facts), node.facts


def test_roles_of_ours_do_without_what_is_revoked_from_all(server: PostgresServer) -> None:
    """As docs/security.md says."""
    store = RoleStore(server.create_database("revoked")).made()
    page = Path(__file__).parents[2] / "docs" / "security.md"
    script = SCRIPT.search(page.read_text(encoding="utf-8"))
    assert script
    store.admin.execute(script[0].encode())
    with (
        psycopg.connect(store.url.replace("tenure@", "mallory@"), autocommit=True) as mallory,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        mallory.execute("SELECT pg_advisory_lock(1)")
    node, editor = Node(store.of("node"), migrate=False), Scheduler(store.of("editor"))
    with node.scheduler:
        node.fires()
        editor.pause("beat")
        editor.resume("beat")
        node.fires()
    editor.stop()
    assert not node.errors
    store.close()
