"""What each number of /metrics says of a node and a store whose state is known."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tenure import Event, Relay, Scheduler, at
from tenure.model.version import VERSION
from tenure.observe import survey
from tests.e2e import command
from tests.e2e.command import until
from tests.faults.relaying import SECRET
from tests.support.servers import PostgresServer
from tests.unit.observe.observing import ANYWHERE, numbers

PLACE: dict[str, Any] = {"namespace": "shop", "app": "books"}
PREDECESSOR = """
from tenure import Scheduler

scheduler = Scheduler({url!r}, ttl=5, namespace="shop", app="books")
scheduler.task(name="quick")(print)
"""
NOWHERE = Relay(
    f"webhook+http://127.0.0.1:9/#secret={SECRET}&timeout=1",
    name="hook",
    allow_http=True,
    allow_private=True,
)
TOMORROW = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
SOON = timedelta(seconds=2)
"""By then even a busy machine has added it."""
UNREAD = 3
Bounds = tuple[float, float]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'numbers.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.create_database("numbers")


@dataclass
class Scene:
    """What is known about the node and its store."""

    scheduler: Scheduler
    url: str
    begun: float
    emitted: float = 0.0
    locked_since: datetime | None = None
    waited_since: datetime | None = None
    overdue: datetime | None = None

    @property
    def now(self) -> float:
        return time.time()

    def connections(self) -> int:
        """As the server counts them."""
        with psycopg.connect(self.url) as own:
            [[count]] = own.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                " AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
            ).fetchall()
        return int(count)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else can renew a lease meanwhile."""
        if self.url.startswith("sqlite"):
            path = self.url.removeprefix("sqlite:///")
            with closing(sqlite3.connect(path, isolation_level=None)) as own:
                until(lambda: _begun(own), "the lock")
                yield
        else:
            with psycopg.connect(self.url) as connection:
                connection.execute("LOCK TABLE tenure.lease IN ACCESS EXCLUSIVE MODE")
                yield


def _begun(connection: sqlite3.Connection) -> bool:
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return False
    return True


def exactly(value: float) -> Bounds:
    return value, value


def moment(value: datetime | None) -> Bounds:
    assert value is not None
    return value.timestamp() - 1e-5, value.timestamp() + 1e-5


GROUP = '{group="billing",topic="ledger"}'
BUSY: dict[str, Callable[[Scene], Bounds]] = {
    f'tenure_node_info{{app="books",tenure_namespace="shop",version="{VERSION}"}}': (
        lambda _: exactly(1)
    ),
    "tenure_leader": lambda _: exactly(1),
    "tenure_took_office_total": lambda _: exactly(1),
    "tenure_takeovers_total": lambda _: exactly(1),
    "tenure_lease_ttl_seconds": lambda _: exactly(5),
    "tenure_heartbeat_timestamp_seconds": lambda s: (s.begun, s.now),
    "tenure_loop_timestamp_seconds": lambda s: (s.begun, s.now),
    "tenure_clock_skew_seconds": lambda _: (-5.0, 5.0),
    "tenure_clock_held": lambda _: exactly(0),
    'tenure_occurrences_total{outcome="fired",reason=""}': lambda _: exactly(1),
    "tenure_tick_lateness_seconds_count": lambda _: exactly(1),
    "tenure_tick_lateness_seconds_sum": lambda _: (0.0, 60.0),
    'tenure_store_errors_total{error="refused",part="runs"}': lambda _: exactly(0),
    "tenure_term": lambda _: exactly(2),
    "tenure_due_schedules": lambda _: exactly(0),
    "tenure_next_due_timestamp_seconds": lambda _: moment(TOMORROW),
    "tenure_waiting_runs": lambda _: exactly(1),
    "tenure_claimed_runs": lambda _: exactly(1),
    "tenure_oldest_waiting_timestamp_seconds": lambda s: moment(s.waited_since),
    "tenure_oldest_lock_timestamp_seconds": lambda s: moment(s.locked_since),
    f"tenure_events_unread{GROUP}": lambda _: exactly(UNREAD),
    f"tenure_events_oldest_unread_timestamp_seconds{GROUP}": lambda s: (s.emitted, s.now),
    'tenure_relay_undelivered{relay="hook"}': lambda _: exactly(UNREAD + 1),
    'tenure_relay_oldest_timestamp_seconds{relay="hook"}': lambda s: (s.begun, s.now),
    'tenure_relay_stalled{relay="hook"}': lambda _: exactly(1),
    'tenure_relay_parked{relay="hook"}': lambda _: exactly(0),
    "tenure_survey_timestamp_seconds": lambda s: (s.begun, s.now),
}
HELD: dict[str, Callable[[Scene], Bounds]] = {
    "tenure_clock_held": lambda _: exactly(1),
    "tenure_due_schedules": lambda _: exactly(1),
    "tenure_next_due_timestamp_seconds": lambda s: moment(s.overdue),
    'tenure_occurrences_total{outcome="fired",reason=""}': lambda _: exactly(1),
}


def test_every_number_is_what_it_says(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "EVERY", 0.1)
    monkeypatch.setattr(survey, "SHARE", 1)
    (tmp_path / "app.py").write_text(PREDECESSOR.format(url=url))
    with command.node(tmp_path) as predecessor:
        predecessor.process.kill()  # it releases nothing
        predecessor.process.wait()
    scheduler = Scheduler(url, ttl=5, health=ANYWHERE, relays=[NOWHERE], **PLACE)
    let_go = threading.Event()
    scheduler.task(name="quick")(lambda: None)
    scheduler.task(name="long", lock="ledger")(lambda: let_go.wait(60))
    with scheduler:
        try:
            _look(Scene(scheduler, url, time.time()))
        finally:
            let_go.set()


def _look(scene: Scene) -> None:
    scheduler = scene.scheduler
    nothing = 'tenure_relay_undelivered{relay="hook"}'
    until(lambda: numbers(scheduler).get(nothing) == 0, "the relay")
    scheduler.emit(Event("ledger", "Opened", {}))
    with scheduler.consumer("ledger", group="billing", wait=20) as consumer:
        for batch in consumer:
            with batch.transaction():
                assert len(batch) == 1
            break
    scene.emitted = scene.now
    for _ in range(UNREAD):
        scheduler.emit(Event("ledger", "Booked", {}))
    scheduler.add("once", at(datetime.now(UTC) + SOON), task="quick")
    scheduler.add("later", at(TOMORROW), task="quick")
    running, waiting = scheduler.enqueue("long"), scheduler.enqueue("long")
    until(lambda: scheduler.get_run(running).claimed_at, "the run to begin")
    scene.locked_since = scheduler.get_run(running).claimed_at
    scene.waited_since = scheduler.get_run(waiting).due
    _comes_true(scene, BUSY)
    _connections(scene)

    # The store's clock seems to have jumped: firing is held.
    node = scheduler._runtime.node
    assert node is not None
    jump = node.ticker.jump
    scheduler._runtime.thread.loop.call_soon_threadsafe(
        lambda: setattr(jump, "_offset", (jump._offset or 0.0) - 3600)
    )
    node.ticker.wake()
    until(lambda: numbers(scheduler)["tenure_clock_held"] == 1, "the jump")
    scene.overdue = (datetime.now(UTC) + SOON).replace(microsecond=0) + timedelta(seconds=1)
    scheduler.add("held", at(scene.overdue), task="quick")
    _comes_true(scene, HELD)

    with scene.locked():
        until(lambda: _errors(scene) > 0, "errors")


def _comes_true(scene: Scene, table: dict[str, Callable[[Scene], Bounds]]) -> None:
    wrong: dict[str, Any] = {}

    def all_true() -> bool:
        found = numbers(scene.scheduler)
        wrong.clear()
        for name, bounds in table.items():
            low, high = bounds(scene)
            if name not in found or not low <= found[name] <= high:
                wrong[name] = found.get(name), low, high
        return not wrong

    try:
        until(all_true, "the numbers")
    except AssertionError as error:
        raise AssertionError(str(wrong)) from error


def _connections(scene: Scene) -> None:
    name = "tenure_store_connections"
    if scene.url.startswith("sqlite"):
        assert name not in numbers(scene.scheduler)
    else:
        until(lambda: numbers(scene.scheduler)[name] == scene.connections() > 0, "all of them")


def _errors(scene: Scene) -> float:
    found = numbers(scene.scheduler)
    return sum(n for name, n in found.items() if name.startswith("tenure_store_errors_total"))
