"""Old and new code side by side, in real processes: a rollout, a rollback, orphans, two apps.

The example of docs/rollouts.md, with seconds for minutes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tenure import Scheduler
from tenure.model import Schedule
from tests.e2e.command import at_hand
from tests.faults.postgres import PostgresCluster, running_server
from tests.faults.support import Cluster, Journal, Program, task, until
from tests.support.servers import ValkeyServer

# Seven processes are started one after the other: that takes 15 s, and on a busy machine minutes.
pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

TTL = 6.0
"""A node that is starved for longer counts as gone, and its edition is rolled back: rightly so. A
third of it is what a call to the store may take, also while a node starts."""
OLD = {"sync": 0.5, "report": 0.4}
NEW = {"sync": 0.25, "audit": 0.4}
QUICK = {"rollout_poll": 0.1, "rollout_grace": 0.5, "concurrency": 4}


class Deployment:
    """Nodes of several editions and apps on one store, and somebody who looks at it."""

    def __init__(self, cluster: Cluster, program: str, looker: Scheduler, **options: Any) -> None:
        self.cluster = cluster
        self.looker = looker
        self._program = program
        self._options = options

    @property
    def journal(self) -> Journal:
        return self.cluster.journal

    def start(self, who: str, code: dict[str, float], app: str = "shop") -> Program:
        tasks = [task(name, seconds) for name, seconds in code.items()]
        given: dict[str, Any] = {"tasks": tasks, "app": app, "ttl": TTL, "settings": QUICK}
        given |= {"machine": who}
        started = self.cluster.start(self._program, who, **given, **self._options)
        self.journal.fact("node.started", who, within=100)
        return started

    def the(self, name: str) -> Schedule:
        return self.looker.get(name)

    def seconds(self, name: str) -> float:
        seconds: float = json.loads(self.the(name).spec.trigger)["seconds"]
        return seconds

    def works(self, name: str, who: str, after: float = 0.0) -> float:
        """This node executes this task; when it did."""
        return self.journal.wait("end", who, after, schedule=name).at

    def looks(self, who: str) -> None:
        """Let this node have looked at the others: it works on for as long as many looks take."""
        at = self.journal.entries()[-1].at
        until(lambda: self.journal.entries(who=who, after=at + 1.0), f"{who} to have looked")

    def told(self, fact: str, who: str, schedule: str, after: float = 0.0) -> float:
        return self.journal.fact(fact, who, after, schedule=schedule, app="shop").at

    def let_miss(self, name: str) -> None:
        """Let one of its times pass while it stands still: a node starts faster than it recurs."""
        planned = self.the(name).next_nominal
        assert planned is not None
        until(lambda: datetime.now(UTC) > planned, f"{name} to have missed something")

    def missed(self, name: str) -> set[str]:
        """The reasons for what was missed of it."""
        shown = self.command("schedules", "show", name, "--occurrences", "1000", "--json")
        occurrences = json.loads(shown)["occurrences"]
        return {o["reason"] for o in occurrences if o["state"] == "missed"}

    def command(self, *args: str) -> str:
        answer = at_hand(self.cluster.folder, *args, "--url", self.cluster.url)
        assert answer.code == 0, answer.err
        return answer.out

    def end(self) -> None:
        """Nobody met anything unexpected."""
        self.cluster.stop_all()
        for trouble in ("service.failed", "start.failed"):
            assert not self.journal.facts(trouble)


@contextmanager
def deployed(cluster: Cluster, program: str, **options: Any) -> Iterator[Deployment]:
    looker = Scheduler(cluster.url)
    try:
        yield Deployment(cluster, program, looker, **options)
    finally:
        looker.stop()
        cluster.end()
        print(cluster.logs())  # noqa: T201 - pytest shows it with a failure


@pytest.fixture
def on_sqlite(tmp_path: Path) -> Iterator[Deployment]:
    with deployed(Cluster(tmp_path), "node") as deployment:
        yield deployment


@pytest.fixture
def on_postgres(tmp_path: Path) -> Iterator[Deployment]:
    with (
        running_server() as server,
        deployed(PostgresCluster(tmp_path, server), "postgres_node") as deployment,
    ):
        yield deployment


@pytest.fixture
def with_redis(tmp_path: Path) -> Iterator[Deployment]:
    """Leases in Redis, where no death can be proven, and schedules in a file."""
    server = ValkeyServer()
    try:
        leases = server.start().url
        with deployed(Cluster(tmp_path), "redis_node", leases=leases) as deployment:
            yield deployment
    finally:
        server.close()


@pytest.mark.parametrize("store", ["on_sqlite", "on_postgres"])
def test_rollout_restart_in_the_middle_orphan_and_rollback(
    store: str, request: pytest.FixtureRequest
) -> None:
    d: Deployment = request.getfixturevalue(store)
    d.start("bank", {"interest": 0.4}, app="bank")
    d.start("old", OLD)
    d.works("sync", "old")

    d.start("new", NEW)
    d.told("schedule.replaced", "new", "sync")
    assert d.seconds("sync") == NEW["sync"]
    d.works("report", "old", after=d.works("audit", "new"))
    version = d.the("sync").version

    d.start("old again", OLD)
    d.cluster.stop_all("old", "bank")
    d.works("report", "old again")
    d.looks("old again")
    assert (d.seconds("sync"), d.the("sync").version) == (NEW["sync"], version)

    d.cluster.stop_all("old again")
    orphaned = d.told("schedule.orphaned", "new", "report")
    assert not d.the("report").active
    listed = d.command("schedules", "list").splitlines()
    [line] = [line for line in listed if line.startswith("report")]
    assert "orphaned: no live node of app 'shop' declares it" in line

    d.let_miss("report")
    d.start("back", OLD)
    revived = d.told("schedule.revived", "back", "report", after=orphaned)
    d.works("report", "back", after=revived)
    assert "orphaned: no live node of app 'shop' declares it" in d.missed("report")
    d.looks("back")
    assert (d.seconds("sync"), d.the("sync").version) == (NEW["sync"], version)

    d.cluster.stop_all("new")
    d.told("schedule.replaced", "back", "sync")
    d.told("schedule.orphaned", "back", "audit")
    assert d.seconds("sync") == OLD["sync"]
    assert len(d.journal.facts("schedule.replaced")) == 2
    assert (d.the("interest").active, d.the("interest").version) == (True, 1)
    d.end()


def test_killed_release_is_rolled_back_and_another_app_is_left_alone(
    with_redis: Deployment,
) -> None:
    d = with_redis
    bank = d.start("bank", {"interest": 0.4}, app="bank")
    d.start("old", OLD)
    new = d.start("new", {"sync": 0.25, "report": 0.4})
    d.told("schedule.replaced", "new", "sync")
    d.works("interest", "bank")

    bank.kill()
    killed = new.kill()

    back = d.told("schedule.replaced", "old", "sync", after=killed)
    assert back - killed > TTL / 4  # not before its lease had expired: it was renewed just before
    assert d.seconds("sync") == OLD["sync"]
    d.start("bank again", {"interest": 0.3}, app="bank")
    assert d.seconds("interest") == 0.3
    d.works("interest", "bank again")
    assert not d.journal.facts("schedule.orphaned")
    d.end()
